/**
 * The words with which the monitors classify steps: English, as agents and their tools write it. Steps in
 * other words or languages are judged only by repetition. Constants; any thread.
 *
 * Patterns run over bounded text and have no nested repetition, so their cost is linear in it.
 */

import { hashLexicon } from './words.ts';

/** Words that do not indicate a text's subject. */
export const FUNCTION_WORDS = hashLexicon(`
  a an the of to in on at for from by with and or if is are was were be been it its this that these those as please
  any into your you i we not no do does did can could will would should have has had their them they which what who
  whom where when how than then so such all each both also more most other some only own same too very just but out up
  about over after before between during`);

/** Words that announce another attempt. */
export const RETRY_WORDS = hashLexicon(
  'again retry another alternative alternatively instead directly try continue',
);

/** Words that turn a sentence into its opposite. `don't` is read as `don` and `t`. */
export const NEGATIONS = hashLexicon(
  'not no never none cannot isn doesn don didn wasn won without nothing neither',
);

/** Names of days and months, which do not identify a subject. */
export const CALENDAR_WORDS = hashLexicon(`
  monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays sundays
  january february march april may june july august september october november december`);

/** Tools that take a command. */
export const SHELL =
  /(?:^|[^a-z])(?:bash|sh|zsh|shell|terminal|console|cmd|command|powershell|exec\w*|run|computer ?terminal)(?![a-z])/i;

/** Actions that change something, by tool name. */
export const MUTATING_ACTION =
  /(?:^|[^a-z])(?:edit|writ|creat|insert|replac|patch|appl|updat|delet|remov|modif|sav|append|commit|install|mov|renam|cancel|book|return|exchang|add|set|upload|send|post|put|mkdir|touch|cp|mv|rm|chmod|sed|tee|submit|deploy|refund|pay|transfer|comment)(?:e|ing|es|y)?(?![a-z])/i;
/** Actions that change something, by the command. */
export const MUTATING_COMMAND =
  /(?:^|[^a-z-])(?:mkdir|touch|cp|mv|rm|chmod|chown|ln|sed -i|tee|patch|apply_patch|dd|truncate|kill|(?:npm|pnpm|yarn|pip3?|apt(?:-get)?|brew|cargo|go|gem|conda) (?:install|add|i|ci|get|update|upgrade|remove|uninstall)|git (?:add|commit|checkout|switch|restore|reset|stash|apply|merge|rebase|pull|revert|cherry-pick|clean|rm|mv)|perl -pi)(?![a-z-])|\bopen\([^)\n]{1,80}['"][wa]b?\+?['"]|\.write(?:_text|lines|File\w*)?\(|\bwriteFile\w*\(|(?:^|[^-=0-9&>])>{1,2} ?[\w./~"'$]/i;

/** File changes that only running or reading can verify, by tool name and by command. */
export const EDITING_ACTION =
  /(?:^|[^a-z])(?:edit\w*|writ(?:e|ing)|creat(?:e|ing)|insert|replace|patch|apply|append|save)(?![a-z])/i;
export const EDITING_COMMAND =
  /(?:^|[^a-z-])(?:sed -i|tee|patch|apply_patch|perl -pi)(?![a-z-])|(?:^|[^-=0-9&>])>{1,2} ?[\w./~"'$]/i;

/** Statements of a query language, whose words are not sentences. */
export const STATEMENT =
  /^\s*(?:select|insert into|update|delete from|with|create|alter|drop|explain|match|merge)\b[^?!]{1,400}\b(?:from|values|set|table|view|index|as|return)\b/i;

/** Signs that occur in commands but not in instructions. */
export const CODE_SIGN = /[|;&$<>={}`\\]|(?:^|\s)--?[a-z]/i;

/** Texts for people, which cannot be run. */
export const DOCUMENT = /\.(?:mdx?|txt|rst|adoc|csv|tex|docx?)(?![\w.])/i;
/** Files that can be run after a change. */
export const PROGRAM =
  /\.(?:[cm]?[jt]sx?|py|rb|go|rs|java|kt|swift|c|h|cc|cpp|hpp|cs|php|sh|sql|lua|pl|scala|ex|exs|vue|svelte|css|html|ya?ml|toml|json)(?![\w.])/i;

/** Commands that show the content of files. */
export const SHOWING_COMMAND = /^\W*(?:grep|egrep|rg|ag|cat|head|tail|less|journalctl|awk|sed -n|strings)\b/i;

/** Actions that send a message to a person. */
export const SPEAKING =
  /^(?:respond|reply|message|say|speak|ask(?:_?(?:user|human|customer|client|person|question|follow_?up|clarif)\w*)?|talk|chat|tell|notify|send_message\w*|message_user|ask_user|respond_to_user|transfer_to_human\w*|escalate\w*|human\w*|user\w*)$/i;

/** Actions that test, build, read back or compare, by tool name. */
export const CHECKING_ACTION =
  /(?:^|[^a-z])(?:tests?|pytest|jest|vitest|unittest|check\w*|verif\w+|validat\w+|build|compil\w+|make|lint|tsc|cargo|npm|python3?|node|diff|assert|typecheck|mypy|ruff|eslint|screenshot|preview|render)(?![a-z])/i;
/** Actions that test, build, read back or compare, by the command. */
export const CHECKING_COMMAND =
  /(?:^|[^a-z])(?:tests?|pytest|jest|vitest|unittest|check|verif\w+|validat\w+|build|compil\w+|make|lint|tsc|cargo|npm|npx|yarn|pnpm|go (?:test|build|vet|run)|python3?|node|diff|mypy|ruff|eslint|curl)(?![a-z])/i;

/** A command that runs something, rather than only looking around, cleaning up or managing versions. */
export const RUNNING_COMMAND =
  /(?:^|[;&|\n]|\bthen\b|\bdo\b)\s*(?:sudo )?(?:\w+=\S* )*(?!(?:cd|ls|pwd|echo|printf|cat|head|tail|less|more|grep|egrep|rg|ag|find|fd|tree|wc|sort|uniq|cut|awk|sed|tr|xargs|mkdir|touch|cp|mv|rm|ln|chmod|chown|tee|export|source|set|unset|alias|which|type|whoami|date|sleep|true|false|exit|clear|history|man|patch|apply_patch|git|apt|apt-get|brew|pip3?|done|fi|else|then|do|for|while|if|EOF|sudo)\b)[.~/]?[A-Za-z][\w./+-]*(?=[\s;|&)]|$)/;

/** Actions that look without changing. */
export const READING =
  /(?:^|[^a-z])(?:get|find|list|search|look\w*|read|view|open|cat|ls|grep|head|tail|show|fetch|retriev\w+|query|quer\w+|browse|lookup|select|describe|inspect|navigat\w+)(?![a-z])/i;

/** Tool names that begin with a verb of looking. */
export const LOOKING =
  /^\W*(?:get|list|find|search|look ?up|show|describe|read|fetch|view|query|calculate|estimate|preview)\b(?! and\b)/i;

/** Actions that are hard to undo; handing over to a colleague is not one. */
export const IRREVERSIBLE =
  /(?:^|[^a-z])(?:cancel|delete|drop|refund|pay|transfer(?! to (?:a )?(?:human|agent|person|support|live))|exchange|return|deploy|publish|rm -rf|push --force|push -f)(?![a-z])/i;

/**
 * Tools with which frameworks hand a conversation to another agent. Such a call has no arguments, unlike a payment.
 */
export const HANDING_OVER = /^transfer_(?:back_)?to_/i;
export const NO_INPUT = /^\s*(?:\{\s*\}|null)?\s*$/;

/** Actions that submit a result. */
export const FINISHING =
  /^(?:finish|submit|final|final_answer|finalanswer|answer|done|complete|complete_task|task_complete|end|exit|stop|terminate|attempt_completion)$/i;

/** Placeholders: names to be filled in. */
export const PLACEHOLDER =
  /\bpath[_/]to[_/]|\byour[_-](?:api|file|token|user|name|email|project|org|repo|key|id)\w*|[<[{](?:your|insert|enter|replace)[ _-][\w -]{1,40}[>\]}]|\b(?:insert|replace)_(?:with_|your_)?\w+_here\b/i;

/** Waiting, and asking for progress. */
export const WAITING =
  /(?:^|[^a-z])(?:wait|sleep|poll|polling|watch|heartbeat|status|progress|is_?ready|await)(?![a-z])/i;

/** A short result that says that something is not finished. */
export const PENDING =
  /["']?\b(?:status|state|phase)\b["']?\s*[:=]\s*["']?(?:pending|queued|running|in[ _-]?progress|waiting|processing|provisioning|starting|building|creating|deploying|scheduled|active)\b|\b(?:still|currently|is|are|job|build|task) (?:running|processing|building|pending|queued|in progress|waiting|starting|deploying)\b|\b(?:containercreating|podinitializing)\b|^\W{0,3}(?:pending|queued|running|in[ _]progress|waiting|processing|building|starting)\b|\bnot (?:yet )?(?:ready|finished|complete|completed|done)\b|\b\d{1,2}(?:\.\d+)? ?%/i;

/** A result that reads like a failure; searched at its beginning and its end. */
export const FAILING =
  /(?:^|\n) ?(?:[\w.]*(?:error|exception)\b|fatal\b|fail(?:ed|ure)?\b|traceback \(most recent|panic:|abort)|\b[1-9]\d* (?:tests? )?(?:failed|failing|failures?|errors?)\b|command not found|no such file or directory|permission denied|syntax error|segmentation fault|\bmake(?:\[\d+\])?: \*\*\*|exit(?:ed)?(?: with)?(?: status| code| with code)[: ]{1,2}-?[1-9]|\berror \d{3}\b/i;

/** A result that says that there is nothing. */
export const DENYING =
  /\b(?:not found|could ?n[o']t (?:be )?f[io]u?nd|could not find|no (?:results?|matches|matching|such|records?|entries|data|items|files?) ?(?:\w+ )?(?:were |was )?(?:found|match|available|exist)?|nothing (?:to|was|found|happen(?:s|ed)|changed)|(?:is|are|remains?) unchanged|no (?:change|effect)s?\b|does(?: not|n't) exist|unable to (?:find|locate|open|access)|did not match|0 (?:results|matches)|none found|empty (?:page|list|result)|unavailable|access denied|404|403)\b/i;

/** A result that says that it is only a part. */
export const PARTIAL =
  /\b(?:viewport shows [1-9]?\d% of|page 1 of (?:[2-9]|\d\d)|showing (?:\d+|the first)[^\n]{0,20} of|truncated|\d+ more (?:lines|results|items|rows|characters|matches)|first \d+ (?:results|lines|rows|items)|has_more"?: ?true|next_page|output (?:cut|limited))/i;

/** Statements that something worked. */
export const CLAIMING =
  /\b(?:successful(?:ly)?|succeeded|(?:tests?|checks?|everything|all|it|build|suite) (?:now )?(?:pass(?:es|ed|ing)?|works?|succeeds?|is (?:green|fixed|working|passing))|(?:is|are|been|now) (?:fixed|resolved|solved|complete[d]?|done|finished|working|implemented|passing)|i(?:'ve| have) (?:fixed|resolved|solved|completed|finished|implemented)|fixed the (?:bug|issue|problem|test))\b/i;

/** Claims to have changed something: in the first person, or with emphasis on success. */
export const CHANGED =
  /\b(?:(?:i|we)(?:'ve| have|’ve)(?: (?:now|just|also|successfully|already))*|(?:has|have)(?: now)?(?: been)? successfully(?: been)?) (?:updated|modified|edited|fixed|repaired|corrected|deleted|cancell?ed|booked|rebooked|refunded|installed|deployed|migrated|renamed|refactored|implemented|exchanged|upgraded|reserved|rescheduled|merged|committed|restarted|reset|patched|changed (?:your|the))\b/i;

/**
 * A task's words for the source to use: "according to X", "rated on X", "the X website". The first or second group
 * captures the names of X.
 */
export const SOURCE =
  /\b(?:[Aa]ccording to|[Aa]s (?:listed|reported|stated|given|shown) (?:by|in|on)|(?:rated|ranked|listed|reviewed|reported|published|posted|documented|available|found|shown|recorded|sold) on|(?:[Uu]sing|[Vv]ia|[Pp]er)) (?:the |its |their )?([A-Z][\w.&-]*(?:(?: of| the| and| &)*,? [A-Z][\w.&-]*){0,6})|\b(?:[Tt]he|[Oo]n|[Ii]n|[Ff]rom|of) ([A-Z][\w.&-]*(?:(?: of| the| and| &)* [A-Z][\w.&-]*){0,6})(?:['’]s)?(?: \w+)? (?:web ?site|web ?page|home ?page|database|dictionary|encyclop\w+|archive|handbook|manual|wiki|portal|catalogue?)\b/g;

/** Words that turn a claim into a wish, a question or a denial. */
export const HEDGING =
  /\b(?:not|n't|isn|if|whether|should|would|could|will|to (?:be|make|see|verify|check|confirm|ensure)|let(?:'s| me| us)|make sure|need|once|until|unless|fail\w*|verify|confirm|ensure|check|may|might|before|please|when)\b|\?/i;

/**
 * Words that turn the claim to have changed something into a wish, a question or a denial. Words for a check, such as
 * `verify`, are not among them, because the claim may mention a check.
 */
export const DOUBTING =
  /\b(?:not|n't|if|whether|should|would|could|will|once|until|unless|may|might|please)\b|\?/i;

/** Admissions of what did not work. A text with such words does not claim that everything worked. */
export const ADMITTING =
  /\b(?:unfortunately|unable to|(?:can|could)(?: ?not|n['’]t)|not (?:been )?(?:able|possible)|still (?:fails?|failing|broken))\b/i;

/** Words that refer to something as already available. */
export const PRESUPPOSING =
  /\b(?:the|this|that|these|those|previously|already|all|each) (?:\w+ ){0,2}?(?:downloaded|provided|identified|obtained|retrieved|extracted|gathered|collected|found|located|mentioned|listed|opened|returned|saved|confirmed|revised|updated)\b/i;

/** Requests to verify something. */
export const VERIFYING =
  /\b(?:verif(?:y|ies|ying)|confirm(?:ing)?|validat(?:e|ing)|authenticat\w+|double-check|cross-check|ensure|make sure)\b/i;

/** Words of a summary, or of continuing from one. */
export const RECAPPING =
  /\b(?:(?:progress|conversation|context|session|work) (?:summary|recap|so far)|summary of (?:the |our |my |this )?(?:progress|conversation|context|session|work|findings|task)|(?:conversation|context|history) (?:\w+ ){0,3}?(?:compact|compress|summari[sz]|truncat|condens|trimm)\w*|(?:compact|compress|summari[sz]|condens)\w* (?:the |our |my )?(?:conversation|context|history|progress|session)|to (?:summari[sz]e|recap)|in summary|recap|(?:continu|resum)\w+ from (?:the |a |my )?(?:previous |earlier )?(?:summary|conversation|context|session)|here(?:'s| is) (?:a |the )?(?:summary|recap|what (?:we|i)(?:'ve| have) (?:done|learned|found)))/i;
/** A tool that writes summaries. */
export const RECAPPING_ACTION = /^(?:\w*_)?(?:summari[sz]e|compact|compress|condense)(?:_\w*)?$/i;
