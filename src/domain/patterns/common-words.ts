/**
 * Words that say nothing about a person or a single run, although they may be capitalized: the common words of
 * English documentation, support and code, and the names of technologies. A capitalized word in neither list counts
 * as a name (rule-text.ts). Words that are also given names, family names or places (will, mark, rose, may) are
 * omitted on purpose. Data; any thread.
 */

/** In lower case. */
export const COMMON_WORDS: ReadonlySet<string> = new Set(
  `
  a abc ability able abort aborted aborting about above absence absent absolute abstract abstraction accept acceptable
  acceptance accepted accepting accepts access accessed accessible accessing accidental accidentally according
  accordingly account accounts accumulated accurate achieve achieved across act acting action actions activated active
  actively activity actor acts actual actually adapt add added adding addition additional additionally additions addon
  addons address addressed addresses adds adduser adheres adjust adjusted admin advanced advantage advertise
  advertised advertising advice advised affect affected affecting affects after afternoon afterwards again against age
  agent agents ago agree agreed agreement ahead aka algorithm algorithms alias aliases align aligned alive all
  alleging allocate allocated allocation allow allowed allowing allows almost alone along alongside alpha already also
  alt alter altered alternate alternative alternatives although altogether always am ambiguity ambiguous among amount
  amounts an analysis ancestor ancient and anew annotated annotation annotations anonymous another answer answered
  answers anti any anymore anyone anything anyway anywhere apart app appear appearance appears append appended
  appending appends applicable application applications applied applies apply applying appointment approach
  appropriate appropriately approval approved apps arbitrary arch architecture architectures archive archives are area
  aren arg args argument arguments argv arising arm around array arrays arrive article artifacts as ascii ask asked
  asking asks assert assertion assertions assign assigned assignment associate associated assume assumed assumes
  assuming async asynchronous asynchronously at attach attached attacks attempt attempted attempting attempts
  attention attribute attributes attribution audit auth authenticate authenticated authentication author authority
  authorization authorized authors authorship auto autoclass automated automatic automatically automethod automodule
  availability available average avoid avoided avoiding avoids await aware away back backend backends background
  backoff backpack backport backported backslash backward backwards bad badge bag baggage balance bank bar bare base
  based bash basic basis batch batches baz be became because become becomes bed been before began begin beginning
  begins behalf behave behaves behavior behaviors behaviour behind being believe belong belongs below bench benchmark
  benchmarks beneficial benefit benefits beside beta better between beyond bicycle big bike bin binaries binary bind
  binding bindings bisect bit bitmap bits blame blank blender blob blobs block blocked blocking blocks blue bodies
  body bogus boilerplate book booked booking bookings books bookshelf bool boolean boots boss both bottle bottom
  bought bound boundaries boundary bounded bounds box bracket brackets branch branches brand break breakage breakages
  breaking breakpoints breaks bring broke broken brother brought browser browsers bucket buf buffer buffered buffers
  bug bugfix buggy bugs build building builds buildsystem built builtin bump bundle bundled bundler bundles business
  busy but button buttons buy buying by bypass byte bytes cabin cache cached caches caching calculate calculated
  calculation call callable callback callbacks called caller callers calling calls came camera can cancel canceled
  cancellation cancelled cancelling candidate cannot canonical cap capabilities capability capable capture captured
  card cards care careful carefully carried carries carry cart cases cat catch category caught cause caused causes
  causing caution center cert certain certifi certificate certificates chain chair challenge change changed changes
  changing channel channels char character characters charge charged charger charges chars charset chat check checkbox
  checked checking checkout checks checksum child children choice choices choose choosing chosen chunk chunked chunks
  circular circumstances city claim claims clarified clarify class classes clause clean cleaned cleaner cleanly
  cleanup clear clearly click client clients clock clone cloned cloning close closed closely closes closing cluster
  cmake co code codebase codepath codepaths codes coding coffee collaborators colleague collect collected collection
  collections collector collision colon color colored colors colour column columns combination combinations combine
  combined come comes coming comma command commands comment comments commercial commit commits committed committer
  common commonly communicate communication community compact company compare compared compares comparing comparison
  compatibility compatible compilation compile compiled compiler compilers compiles compiling complain complete
  completed completely completes completion completions complex complexity compliance compliant complicated complies
  comply component components composed compress compressed compression computation compute computed computer computes
  computing concept concerns concurrent concurrently condition conditional conditionally conditions confidence config
  configs configurable configuration configurations configure configured configuring confirm confirmed conflict
  conflicted conflicting conflicts conform confused confusing confusion conjunction connect connected connecting
  connection connections connector consequential consider considered consist consistency consistent consistently
  consisting consists console conspicuously const constant constants constitutes constraint constraints construct
  constructed constructing construction constructor constructors constructs construed consult consume consumed
  consumer consumers consuming consumption contact contain contained container containers containing contains content
  contents context contexts continuation continue continued continues contract contrast contribute contributed
  contributing contribution contributions contributor contributors control controlled controller controls convenience
  convenient convention conventions conversation conversations conversion conversions convert converted converting
  converts cookie cookies cope copied copies copy copying copyright core cores corner correct corrected correctly
  correspond corresponding corresponds corrupt corrupted corruption cost costs couch could count counted counter
  counterclaim counting country counts couple coupon course cover coverage covered covers cpack cpu crash crashed
  crashes crashing create created creates creating creation credential credentials credit criteria critical cron cross
  cruft crypto cryptography ctest curl current currently cursor custom customer customers customization customize
  customized cut cvsimport cvsserver cycle cycles cycling dad daemon damage damages dark dash dashboard data database
  dataframe dataset datasets date dates daughter days dead deadlock deal dealing dear debit debug debugger debugging
  decide decided decides deciding decimal decision declaration declarations declare declared decode decoded decoder
  decoding decorator decorators dedicated dedupe deemed deep deeper def default defaults define defined defines
  defining definition definitions del delay delays delete deleted deletes deleting deletion delimited delivered
  delivery delta demand denied denies deny dep depend depended dependencies dependency dependent dependents depending
  depends deploy deployment deploys deprecate deprecated deprecation deps depth derivative derived describe described
  describes describing description descriptions descriptor descriptors design designated designed desirable desired
  desk despite destination destroy destroyed detached detail detailed details detect detected detecting detection
  detects determine determined determines determining deterministic dev develop developed developer developers
  developing development device diagnose diagnosed diagnostic dialog dict dictionary did didn die diff differ
  difference differences different differently differs difficult difftool digest digit digits dir direct direction
  directive directly directories directory dirty disable disabled disables disabling discard discarded disclaimer
  disclosure disconnect discount discounts discouraged discover discovered discovery discussing discussion dishwasher
  disk dispatch dispatched dispatcher display displayed displays dist distinct distinguish distribute distributed
  distribution distributions distro do doc docfix docker docs docstrings doctor document documentation documented
  documents does doesn doing domain domains done dot double down downgrade download downloaded downloading downloads
  downstream draft drain dress drive driver drop dropdown dropped drops due dumbbell dump duplicate duplicated
  duplicates duplication duration during dynamic dynamically each earbuds earlier early ease easier easily easy echo
  economy ecosystem edge edit edited editing editor edits effect effective effectively effects efficient effort eg
  either electronic element elements else elsewhere email emails embed embedded embedding emit emits emitted employee
  employees empty emulation enable enabled enables enabling enclosed encode encoded encoding encodings encounter
  encountered encourage encouraged encrypted encryption end ended endif ending endings endorse endpoint endpoints ends
  enforce enforced engine engines enhanced enough ensure ensures ensuring enter entered entire entirely entities
  entity entries entry enum env environment environments envvar epoch equal equals equivalent era err error errored
  errors escalate escalated escape escaped escapes escaping eslint esm especially espresso essential essentially
  establish established etc eval evaluate evaluated evaluates evaluation even evening event events eventually ever
  every everyone everything everywhere exact exactly example examples exceed exceeded exceeds except exception
  exceptions excessive exchange exchanged exchanges exclude excluded excludes excluding exclusion exclusive
  exclusively exec executable executables execute executed executes executing execution exercise exercising exist
  existed existence existing exists exit exited exiting exits expand expanded expands expansion expect expected
  expecting expects expensive experience experimental expired explain explaining explains explanation explicit
  explicitly exponential export exported exporting exports expose exposed exposes exposing express expressed
  expression expressions extend extended extends extension extensions extent external externally extra extract
  extracted extraneous extremely facilitate facility fact factor factory fail failed failing fails failure failures
  fake fall fallback falling falls false family far fast faster fatal father favor feat feature features fed fee feed
  feedback feel fees felt fetch fetched fetches fetching few fewer field fields fifty figure file filed filename
  filenames files filesystem filesystems fill filled filter filtered filtering filters final finally find finding
  findings finds fine finish finished finishes fired first fit five fix fixed fixes fixing fixtures flag flags flaky
  flat fleece flexible flight flights float floating flow flush flushed focus folder folders follow followed following
  follows font fonts foo foobar footer footprint for forbid forbidden force forced forces foreach foreground forever
  forget forgot fork form format formats formatted formatting former forms forth forward forwarded forwarding forwards
  found four fragment fragments frame frames framework frameworks free freely freeze frequency fresh fridge friend
  friendly friends from front fsck full fully func function functional functionality functions fundamental funding
  furnished further future gain gained garbage garden gateway gave general generally generate generated generates
  generating generation generator generators generic genex get gets getter getting gift git github gitk gitweb give
  given gives giving glasses glob global globally globals gloves go goal goals goes going golden gone good got
  governing gpu gracefully gradient grammar granted granting grants graph great greater greatly grep grill group
  grouped grouping groups grow guarantee guaranteed guarantees guard guess guests gui guidance guide guidelines guy
  gzip hack had half hand handful handle handled handler handlers handles handling handshake hang hanging hangs happen
  happened happens hard hardcoded harder harmless has hash hashes hat have haven having head header headers headphones
  heap hear heard height held hello helmet help helped helper helpers helpful helps hence here hereby herein
  heuristics hex hey hi hidden hide hierarchy high higher highest highlight highlighting highly hiking hint hints
  historical history hit hitting hold holder holders holds home homepage honored honors hook hooks hose host hosted
  hostname hosts hotel hotfix hour hours how however huge human hunk hunks husband i icon icons id idea identical
  identification identified identifier identifiers identifies identify identifying identity idle ids ie if ignore
  ignored ignores ignoring iii image images immediately immutable impact implement implementation implemented
  implementing implements implicit implicitly implied implies imply import important imported importing imports
  impossible improve improved improvement improvements improves improving in inactive incidental include included
  includes including inclusion inclusive incoming incompatible incomplete inconsistent incorporated incorrect
  incorrectly increase increases indefinitely indemnify indemnity indent indentation indented independent
  independently index indexes indicate indicated indicates indicating indirect indirectly individual individually
  individuals indoor inferred infinite info information informational infrastructure infringed infringement inherit
  inherited inherits init initial initialization initialize initialized initializes initially inject inline inner
  input inputs insensitive insert inserted inside insn inspect install installation installations installed installer
  installers installing installs instance instanceof instances instantiate instantiated instantiation instead
  instruction instructions insurance int integer integers integrate integrated integration integrations integrity
  intellectual intended intent intentionally inter interact interacting interaction interactive intercept interceptor
  interceptors interest interested interface interfaces interfere intermediate internal internally internals interpret
  interpreted interpreter interrupted interval into intra introduce introduced introducing invalid invalidate inverse
  investigate invocation invocations invoice invoices invoke invoked invoking involved involves irrelevant irrevocable
  is isn isolated issue issued issues it item items iterable iterate iterating iteration iterator its itself jacket
  javascript jigsaw job jobs join joins jump just keep keeping keeps kept kernel kettle key keyboard keys keyword
  keywords kids kill killed kind kinds kit know knowledge known knows label labels lack lacked lacks lamp land
  language languages laptop large larger last late latency later latest latter launch launched law laws lawsuit layer
  layout lazily lazy lead leading leak leaked leaking leaks learn learned learns least leave leaves leaving led left
  legacy legal len length lengths less let lets letter letters level levels liable lib libc libraries library libuv
  licensed licenses licensing lifecycle lifetime light lightweight like likely limit limitation limitations limited
  limiting limits line lines link linked linker linking links lint linter list listed listen listener listeners
  listening listing lists literal literally literals litigation little live lives load loaded loader loading loads
  loan local locale localhost locally locate located location locations lock lockfile lockfiles locks log logged
  logger logging logic logical login logo logs longer look looked looking looks lookup lookups loop loopback loops
  loose lose loss losses lost lot low lower lowercase loyalty lstat machine machinery machines macro macros made magic
  mail mailinfo mailing main mainly maint maintain maintained maintainer maintainers maintaining maintains maintenance
  make maker makes makeup making malformed malicious man manage managed management manager managers manages managing
  mandatory manifest manipulation manner manual manually many map mapped mapping mappings maps margin marked marker
  markers marking mask master mastercard mat match matched matches matching material materials matrix matter matters
  mattress maxdepth maximum maybe me mean meaning meaningful means meant measure measured measures mechanism
  mechanisms media medium meet meets member members membership memory men mention mentioned menu menus merely merge
  merged merges mergetool merging message messages met meta metadata method methods metrics microwave middle might
  migrate migration million milliseconds min mind minimal minimize minimum minor minute minutes mirror misbehaved misc
  mishandled mismatch missed missing mistake mistakenly mistakes mix mixed mkdir moc mock mocking mod modal mode model
  models modern modes modification modifications modified modify modifying module modules mom moment monitor monitors
  month monthly months more morning most mostly mother mount mouse move moved moves moving much multi multipart
  multiple museum must mutable mutex my name named namely names namespace namespaces naming native natively natural
  nature navbar navigation near nearest necessarily necessary need needed needs negative negligence negotiation
  neither nested network never new newer newest newline newlines newly next night ninja no nobody nodejs nodes non
  none nonsense nor normal normalization normalize normalized normally not notable notably notation note notebook
  noted nothing notice noticed notices notify now npmrc null num number numbers numeric obj object objects obligations
  observed obsolete obtain obtained obtaining obvious obviously occur occurred occurs of off offer offering offers
  office official officially offset often ok okay old older oldest omit omitted on once one ones ongoing online only
  onto open opened opening opens openssl operate operates operating operation operations operator operators opposed
  opposite opt optimization optimizations optimize optimized option optional optionally options opts or order ordered
  ordering orders ordinary organization organizations origin original originally origins orphan other others otherwise
  ought our out outcome outdated outdoor outer outgoing output outputs outside outstanding oven over overall overflow
  overhead overridden override overrides overriding overview overwrite overwriting overwritten own owned owner
  ownership owns pack package packaged packages packaging packed packfile packfiles packs padding pager pages paid
  pair paired pairs pants paragraph parallel param parameter parameters params parent parents parse parsed parser
  parsers parses parsing part partial partially particular particularly parties parts party pass passed passenger
  passengers passes passing password past paste patch patches patent path pathname pathnames paths pathspec patient
  patio pattern patterns pause pay paying payload payloads payment payments paypal pays peer pen pending people per
  percent perf perfect perform performance performed performing performs perfume perhaps period permission permissions
  permit permitted perpetual persist persistent person personal persons pertaining pet phase phone phones physical
  physically pick piece pieces pin ping pinned pip pipe pipeline pipelines place placed placeholder places plain plan
  plans platform platforms please plugged plugin plugins plumbing plus pm pod pods point pointed pointer pointing
  points policies policy pool pooling pools poorly popular populate populated port portability portable portion
  portions ports position positional positions positive possibility possible possibly post posting potential
  potentially power powerful practice practices pre precedence precision precompiled predefined predictable prefer
  preference preferences preferred prefers prefix prefixed prefixes preparation prepare prepared preparing prepend
  prepended preprocessor presence present preserve preserved preserving pretty prevent prevented preventing prevents
  previous previously prices primarily primary primitive print printed printf printing prints priority private
  probably problem problematic problems procedure process processed processes processing processor processors prod
  produce produced produces producing product production products professional profile program programming programs
  progress project projects prominent promise promises promo promote prompt prompts propagate propagated propagation
  proper properly properties property protect protected protection protocol protocols prototype provenance provide
  provided provider providers provides providing provision proxies proxy prune public publicity publicly publish
  published publishes publishing pull purchase purchased pure purpose purposes push pushed pushes pushing put puzzle
  pyparsing pytest quality quantity queries query question questions queue queued quickly quiet quite quote quoted
  quotes quoting race raise raised raises ran random range ranges rare rarely rate rates rather raw re reach reachable
  reached reaches read readability readable reader readers readline readme reads ready real really reason reasonable
  reasonably reasons rebase rebuild receive received receives receiving recent recently recipient recipients recognize
  recognized recognizes recommend recommendation recommended record recorded recording records recursion recursive
  recursively red redirect redirected redirects redistribute redistributed redo reduce reduced reduces reducing
  redundant ref refactor refactoring refer reference referenced references referencing referral referred referring
  refers reflect reflog refname refresh refs refspec refund refunded refunds refuse refused refuses regard regarding
  regardless regex regexp region register registered registries registry regression regressions regular reject
  rejected rejection rejects related relationship relationships relative relatively release released releases relevant
  reliable reliably relied relies rely relying remain remaining remains remember remote removal remove removed removes
  removing rename renamed renames renaming render rendering repack repeat repeated repeatedly repeating replace
  replaced replacement replaces replacing replay reply repo report reported reporting reports repositories repository
  represent representation represented representing represents reproduce reproduction req request requested requesting
  requests require required requirement requirements requires requiring rerere res reservation reservations reserved
  reset resolution resolve resolved resolves resolving resource resources respect respective respectively respond
  response responses responsibility responsible rest restart restarts restore restrict restricted restriction
  restrictions result resulted resulting results resume retain retained retried retries retrieval retrieve retrieved
  retry retrying return returned returning returns reusable reuse reused reverse revert reverted review reviewed
  revised revision revisions rewrite rewritten rid right rights risk risks robot robust role rollback room rooms root
  roughly round rounds route routes row rows rsa rule rules run runner running runs runtime runtimes safe safely safer
  safety said sake salary sale same sample satisfy save saved saves saving saw say saying says scanning scarf scenario
  scenarios schedule scheduled schema schemas scheme scope scoped scopes score scratch screen script scripted scripts
  search searched searches searching second seconds secret secrets section sections secure security sed see seeing
  seen sees segfault segfaulted segments select selected selecting selection selects self sell semantic semantics
  semver send sender sending sends sense sensible sensitive sent sentence separable separate separated separately
  separator sequence sequences serialization serialize serialized series serve served server servername servers serves
  service services session sessions set sets setting settings setup setuptools several sha shall shallow shape share
  shared shares sharing sheet shell shim shims ship shipped shipping ships shirt shoe shoes shortcut shorter shorthand
  shortlog should shouldn show showed showing shown shows shutdown side sidebar sides sign signal signals signature
  signatures signed significant significantly signing silent silently similar similarly simple simpler simplified
  simplify simply simultaneously since single sister site sites situation situations six size sizes skateboard skipped
  skipping skips slash slashes sleeping slice slider slightly slow slower small smaller smart smartphone snapshot
  snapshots sneakers snippet so social socket sockets socks sofa software sold sole solely solution some someone
  something sometimes somewhere son soon sorry sort sorted sorting source sources space spaces span spans sparse spawn
  spawned spawning speak speaker spec special specific specifically specification specifications specified specifier
  specifiers specifies specify specifying spelled spent split splitting square stability stable stack stage staging
  stale stand standalone standard standards stands stars start started starting starts startup stash stat state stated
  statement statements states static stating statistics stats status stay stays stderr stdin stdio stdout step steps
  still stop stopped stopping stops storage store stored stores storing strange strategy stream streamed streaming
  streams strict strictly string strings strip stripe stripped strips strongly struct structure structured structures
  stuck student stuff style styles sub subclass subclasses subcommand subcommands subdirectories subdirectory subject
  sublicense submission submit submitted submitting submodule submodules subprocess subscription subsequent
  subsequently subset substantial substitute substring subsystem subtree succeed succeeds success successful
  successfully such sudo sufficient suffix suggest suggested suggestion suggestions suggests suitable suite sum
  summary sunglasses sup super superproject supersede superseded supervisor supplied supply support supported
  supporting supports supposed suppress suppressed sure surface surprising surrounding switch switched switches
  switching symbol symbolic symbols symlink symlinks sync synchronous synchronously synonym syntax sys system systems
  tab table tables tablet tabs tag tagged tags take taken takes taking talk talking tar tarball tarballs target
  targeting targets task tasks taught tax tea team teams technical television tell telling tells template templates
  temporary ten tensor tent term terminal terminate terminated terminates terminating termination terms test tested
  testing tests text texts than thank thanks that the their them theme themselves then theory there therefore thereof
  thermostat these they thin thing things think thinking third this those though thought thread threads three
  threshold through throughout throughput throw throwing thrown throws thus tick ticket tickets tilde time timeout
  timeouts timer timers times timestamp timestamps timezone timing tiny tip tips title to toaster toctree today todo
  together toggle token tokens told tomorrow tonight too took tool toolchain tooling tools toolset top topic tort
  total touch towards trace traceback traces tracing track tracked tracker tracking tracks trade trademark trademarks
  traditional traffic trailer trailers trailing transaction transactions transfer transferred transform transformation
  transformed transforms transition transitive translate translated translation transport transports traversal treat
  treated treats tree trees tried tries trigger triggered triggers trivial trouble true truncated trust trusted try
  trying tty tunnel tuple turn turned turning turns tutorial tv tweak tweaked twice two type typed typeof types
  typescript typical typically typing typo typofixes umbrella un unable unaffected unavailable unaware unborn uncaught
  unchanged undefined under underlying underscore understand understands understood understudy undici undo
  undocumented unexpected unfortunately unhandled unified uninitialized uninstall unintended union unique unit units
  universal unknown unless unlike unlikely unmerged unmodified unnecessarily unnecessary unreachable unrelated unsafe
  unset unsigned unspecified unstable unsupported until untracked untrusted unusable unused unusual unwanted up update
  updated updates updating upgrade upgraded upgrading upload uploads upon upper uppercase upstream urls us usability
  usable usage use used useful useless user username users uses using usual usually util utilities utility utils
  vacuum val valgrind valid validate validated validating validation validity value values var variable variables
  variant variants variety various vary vector vectors verbatim verbose verbosity verification verified verifies
  verify verifying versa version versionadded versionchanged versions very via vice view viewer views virtual visa
  visibility visible visit void volume voucher vouchers vs vulnerability vulnerable wait waited waiting waits walk
  wall want wanted wants warn warning warnings warns warranties warranty was wasn watch water way ways we web webhook
  webhooks website websocket week weekend weekly weeks welcome well went were what whatever wheel when whenever where
  whereas wherever whether which whichever while whitespace whitespaces who whole whom whose why wide widely widget
  width wife wiki wildcard window wire wireless wish wishes with within without woman women won word words work
  workaround worked worker workers workflow working works workspace workspaces worktree world worldwide worse would
  wrap wrapped wrapper wrappers wrapping wraps writable write writer writes writing written wrong wrote yarn year
  yearly years yes yesterday yet yield yields yoga you your yourself zero zip zlib zstd`
    .trim()
    .split(/\s+/),
);

/** Languages, tools, services and abbreviations, in lower case. */
export const TECHNICAL_WORDS: ReadonlySet<string> = new Set(
  `
  airflow alpine am amazon android angular ansi ansible anthropic apache api apis ascii atm aws azure babel bash
  bigquery bitbucket bluetooth bom bun cargo cassandra cd centos chrome chromium ci cli clojure cobol conda confluence
  cors cpu crlf crm crud csrf css csv cypress datadog db dbs dbt ddl debian deno dev django dml dns docker dom edge
  elasticsearch elixir english env eof eol erlang erp eslint eta ethernet excel faq fastapi fedora firefox fish fixme
  flask fortran ftp gb gcp gid gif git github gitlab gmail gmt golang google gpu gradle grafana graphql grpc gui guid
  gzip hadoop haskell hdd helm html http https iam id ide ids imap internet io ios ip iso java javascript jenkins jest
  jira jpeg jpg json jsx junit jupyter jwt kafka kb keras kotlin kpi kubernetes laravel latex ldap linux looker lua
  macos mariadb markdown mastercard matlab matplotlib maven mb mercurial microsoft mocha mongodb ms mysql nextjs nginx
  node nodejs npm numpy nuxt oauth ok openai openapi opera oracle orm os otp outlook pandas paypal pdf perl php pid
  pin pip playwright pm png pnpm podman poetry pos posix postgres postgresql postman powerpoint powershell pr prettier
  prod prometheus prs pytest python pytorch qa rabbitmq rails ram react redis repl rest rfc rollup rom rpc ruby rust
  safari salesforce saml sass scala scipy sdk selenium sentry sftp shopify sklearn sla slack sms smtp snowflake soap
  spark spring sql sqlite ssd ssh ssl sso stderr stdin stdout stripe svelte svg svn swagger tableau tar tb tcp
  tensorflow terraform tls todo tomcat toml tsx tty typescript ubuntu udp ui uid unicode unittest unix uri uris url
  urls usb utc utf uuid ux vagrant vat visa vite vitest vm vms vpc vue web webpack wifi wikipedia windows wip
  wordpress xml xss yaml yarn zendesk zip zsh`
    .trim()
    .split(/\s+/),
);
