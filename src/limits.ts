/**
 * Bounds that an operator cannot change, of all that others rely on: what comes from outside (requests, bodies, texts,
 * identifiers), what a tenant may have, and what grows with traffic or history. The ones that an operator can change have
 * their defaults here too and are read in `config.ts`. Relations between them are asserted when this file loads, so a bad
 * edit stops every start and every test. How large the parts of one structure are (a piece, a page, a batch of rows) stands
 * with that structure. Constants only; any thread.
 */

import { strict as assert } from 'node:assert';

const KIB = 1024;
const MIB = 1024 * KIB;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** What the defaults of `config.ts` are; the names are those of the operator variables. */
export const DEFAULTS = {
  GW_MAX_QUEUE: 10_000,
  GW_MAX_QUEUE_BYTES: 256 * MIB,
  GW_MAX_CAPTURE_BYTES: 64 * MIB,
  MAX_BODY_BYTES: 5 * MIB,
  MIN_UPLOAD_BYTES_PER_SEC: 64,
  RATE_LIMIT_PER_SEC: 200,
  RATE_LIMIT_BURST: 400,
  AUTH_FAIL_RATE_PER_SEC: 5,
} as const;

/** Memory in which exchanges go to the capture writer, shared by both threads: some batches fill one. */
export const CAPTURE_SLAB_BYTES = 4 * MIB;
/** Of these a server thread keeps so many for use again: the batches under way, the one that grows, and some to spare. */
export const CAPTURE_FREE_SLABS = 6;
/** What a server thread keeps for use again of the cells that bodies are copied into. */
export const CAPTURE_FREE_CELL_BYTES = 256 * MIB;
/**
 * Memory that the capture process sees, too: twice GW_MAX_QUEUE_BYTES and so much for each server thread, at most so much in all. It is
 * not made where less is available. What finds no room in it goes to that process through a pipe.
 */
export const CAPTURE_MAPPED_SPARE_BYTES = 64 * MIB;
export const CAPTURE_MAPPED_BYTES_MAX = 4_096 * MIB;
export const CAPTURE_MAPPED_BYTES_MIN = 32 * MIB;
/** V8's heap of the capture process; bodies and what they are compared with lie beside it. */
export const CAPTURE_PROCESS_HEAP_MB = 1_024;
/** Wait before the capture process is started again: doubles from the first to the last. */
export const CAPTURE_RESTART_MS = { first: 100, last: 10_000 } as const;
/** Faults of the capture process are forgotten when there was none for so long. */
export const CAPTURE_CALM_MS = 5 * MINUTE_MS;
/** What a server thread keeps for use again of the memory that request bodies arrive in. */
export const FREE_BODY_PIECES_BYTES = 32 * MIB;
/** Kept of a body that is announced to be longer than GW_MAX_CAPTURE_BYTES: enough to see what it was. */
export const CUT_BODY_BYTES = 16 * MIB;
/** A batch that the writer has had for so long without an answer: it is stuck. A commit takes milliseconds. */
export const CAPTURE_STUCK_MS = 10_000;
/** What a stop gives the writer at least, however long the drain took; and the last flush and the end of its process. */
export const CAPTURE_STOP_MS = 5_000;
/** A block that has waited so long to be compressed: packing does not keep up. */
export const PACKING_BEHIND_S = 600;
/** Largest GW_MAX_CAPTURE_BYTES: one stored body is one buffer, and the decoder needs room for a second. */
export const CAPTURE_BYTES_MAX = 1024 * MIB;
/** Most actor or server threads that a machine of any size gets something from. */
export const THREADS_MAX = 64;
/**
 * Threads that `auto` stands for, from so many usable cores on. Measured with one and two cores; beyond, three of four cores
 * serve, a second actor thread keeps searches away from capture, and embedding grows by a thread for eight cores
 * (bench/notes/cores.md).
 */
export const THREADS_BY_CORES: readonly { cores: number; server: number; actor: number; compute: number }[] =
  [
    { cores: 1, server: 1, actor: 1, compute: 1 },
    { cores: 2, server: 2, actor: 1, compute: 1 },
    { cores: 4, server: 3, actor: 2, compute: 1 },
    { cores: 8, server: 6, actor: 2, compute: 1 },
    { cores: 16, server: 12, actor: 2, compute: 2 },
    { cores: 32, server: 24, actor: 3, compute: 4 },
    { cores: 64, server: 48, actor: 4, compute: 8 },
  ];
/** GW_NOTE and --note: it is written into every exchange. */
export const NOTE_CHARACTERS = 200;

/**
 * Connections at most where the operator says nothing, and of one public address (loopback and private networks may have any
 * number: proxies are there); and descriptors for all else than connections and their upstreams.
 */
export const CONNECTIONS_MAX = 100_000;
export const PUBLIC_ADDRESS_CONNECTIONS = 1_000;
export const DESCRIPTORS_KEPT = 256;
/** The least pace of an upload holds on average over this time. */
export const UPLOAD_PACE_WINDOW_MS = MINUTE_MS;

/** The head of an upstream's answer to a WebSocket handshake, and the body of one that says no. */
export const TUNNEL_HEAD_BYTES = 12 << 10;
export const TUNNEL_REFUSAL_BYTES = 1 << 20;
/** What a client has sent before it went still has so long to reach the upstream. */
export const TUNNEL_LINGER_MS = 5_000;
/** A tunnel through which nothing has passed for so long ends at once when the service stops. */
export const TUNNEL_IDLE_MS = 1_000;
/** A longer message is forwarded, and ends the capture of its connection. */
export const TUNNEL_MESSAGE_BYTES = 32 << 20;
/** What a server thread holds of messages that are not whole, for capture. */
export const TUNNEL_READING_BYTES = 128 << 20;
/** Frames are kept in exchanges of about this size. */
export const TUNNEL_PART_BYTES = 4 << 20;
/** Turns that one connection may have open. */
export const TUNNEL_STREAMS_MAX = 64;

/** Request head that the HTTP parser takes; goes to uWebSockets.js as UWS_HTTP_MAX_HEADERS_SIZE before it loads. */
export const HTTP_HEAD_BYTES = 64 * KIB;
/** Answer head taken from an upstream. Larger than what we take from clients: some providers set many cookies. */
export const UPSTREAM_HEAD_BYTES = 256 * KIB;

/** Longest silence of an upstream, before the head and between two chunks. Thinking streams are quiet for minutes. */
export const UPSTREAM_TIMEOUT_MS = HOUR_MS;
/** To set up a connection to the upstream (address look-up, TCP, TLS) before the client gets its 502. */
export const UPSTREAM_CONNECT_MS = 30_000;
/** How long an unused connection is kept. Providers mostly close after more; a dead one costs a retry, not a failure. */
export const UPSTREAM_IDLE_MS = 30_000;
/** How often connections to upstreams are looked at: unused ones, silent ones. */
export const UPSTREAM_SWEEP_MS = 5_000;
/** Extension of one chunk of an answer; nobody is known to send any. */
export const UPSTREAM_CHUNK_LINE_BYTES = 4 * KIB;

/** From SIGTERM: what requests in flight get before their connections are closed. */
export const DRAIN_DEADLINE_MS = 30_000;
/** How long a start waits for a process that still drains, and then writes what it has captured. */
export const CLAIM_PATIENCE_MS = 2 * DRAIN_DEADLINE_MS;

/** A stored body is decompressed up to this size; beyond it the turn is stored and marked undecodable. */
export const DECODED_BODY_BYTES = 128 * MIB;
/** Levels of a body's JSON that is read as a turn; deeper, the body is stored and marked undecodable. */
export const TURN_JSON_LEVELS = 512;
/** Blocks, tools and stream events that the normal form of one turn takes; beyond it the turn is marked. */
export const NORMAL_TURN_ITEMS = 200_000;
/** Runs that a command knows of at a time, those that went on last: some fifty bytes each. */
export const CHAINED_RUNS = 1_000_000;
/** A line of a trace is held back up to this length, so that it goes out whole or not at all; longer ones stream. */
export const TRACE_LINE_HELD_CHARS = 16 * MIB;
/** Turns of one run in which patterns are looked for: some 10 KB each are in memory meanwhile. */
export const RUN_STORY_TURNS = 2_000;
/**
 * What is taught at most, newest golden runs first: steps in all, of one run, their digests in memory; and the patterns
 * that are taken out of the runs on the way.
 */
export const DISTILL_BOUNDS = {
  steps: 20_000,
  steps_per_run: 1_000,
  steps_bytes: 32 * MIB,
  /** So many runs one after the other that no agent needs, and older ones are not looked at. */
  passed_over: 50_000,
  /** A round that runs out of memory begins again with half of this, so many times at most. */
  halvings: 6,
  patterns: 2_000,
} as const;
/**
 * Bodies up to this size are read by the distiller, and compressed ones up to a sixteenth of it: several copies of one
 * are in memory at once. Runs with larger ones are left out.
 */
export const DISTILL_BODY_BYTES = 8 * MIB;
/** Golden steps of runs kept apart that a service is asked about, of all agents together; so many at a time. */
export const SERVICE_STEPS_ASKED = 1_000;
export const SERVICE_ASKED_AT_ONCE = 4;
/** Of an agent with few golden runs, how many are kept apart for a service, and at most which share of all runs. */
export const SERVICE_HELD_OUT = { runs_min: 45, share_most: 0.6 } as const;
/** Answers of a service to one step that may be asked to agree. */
export const SERVICE_ANSWERS_MAX = 5;
/** Words of golden answers that are known of one agent when a service's answer is looked at. */
export const SERVICE_SAID = 4_096;
/** So many failures of a service one after the other, and nobody is asked any more. */
export const SERVICE_FAILURES_MAX = 12;
/** In the gateway it is asked again after that time: once, and at its next failure it rests as long. */
export const SERVICE_REST_MS = 15_000;
/** JavaScript heap of a round of the distiller: whatever is in the database, with buffers it stays under 500 MB in all. */
export const DISTILL_HEAP_MB = { old: 176, young: 16 } as const;
/** Share of served steps that may be wrong (decisions, Relegation), and steps without which nobody can say. */
export const TARGET_ERROR_DEFAULT = 0.05;
export const SERVED_MIN_DEFAULT = 12;
/** Tools that an operator excepts from being served. */
export const NEVER_SERVE = { names: 100, characters: 128 } as const;
/** Kinds of answers of an agent that the dashboard lists. */
export const MANIFEST_SHOWN_KINDS = 20;
/** Golden runs that a student takes; the share of them that is kept apart to measure on, and its fewest runs. */
export const GOLDEN_RUNS_MIN = 12;
export const HELD_OUT = { share: 0.25, runs_min: 5 } as const;
/** What the distiller keeps of runs beside its output, packed. */
export const DIGEST_CACHE_BYTES = 512 * MIB;
/** A student's directory: its manifest, each file as it lies there, and the steps unpacked in memory. */
export const STUDENT_BOUNDS = {
  manifest_bytes: 256 * KIB,
  file_bytes: 256 * MIB,
  unpacked_bytes: 512 * MIB,
} as const;
/** Versions of a student that its directory keeps: so many, and so long as their files take no more. */
export const STUDENT_VERSIONS = { kept: 8, bytes: 1_024 * MIB } as const;
/** What an operator may order of a student: suspensions, and suspensions that were taken back, the oldest of which go. */
export const ORDERS = { suspended: 200, resumed: 200, shares: 16 } as const;
/** What a student's core looks at in a step, in UTF-16 units where nothing else is said, and what it learns at most. */
export const STUDENT_CORE = {
  /** A step's sources together; also its largest text and the texts beside it. */
  step: 14_000,
  task: 3_000,
  said: 1_500,
  system_changing: 800,
  result: 5_000,
  call: 1_500,
  string: 1_200,
  /** Bytes, about, of the system prompts whose sentences are kept: enough for the largest that is served. */
  prompts_kept_bytes: 32 * MIB,
  system_sentences: 300,
  /** Sentences of it whose numbers are looked at one by one. */
  system_numbers: 60,
  /** Values in one sentence of it that are told apart; in all of it, and in the fixed wording of the task. */
  sentence_values: 32,
  system_values: 160,
  task_values: 64,
  /** Of a task, how much of its beginning and of its end is read for them; golden runs that make one part of the rule. */
  task_wording: { beginning: 12_000, end: 4_000 },
  fixed_value_runs: 8,
  /** Values that are part of an agent's rule. */
  fixed_values: 400,
  /** What the fingerprint of tools and settings may cost, which is no more than two for each byte of a body that is served. */
  scope_read: 4 * MIB,
  scope_depth: 200,
  /** A result that is longer is no JSON to the student, but the beginning and end of a text. */
  json_parsed: 49_152,
  json_depth: 8,
  json_items: 40,
  json_nodes: 400,
  /** Messages looked back at, calls remembered of them, earlier results of one tool. */
  messages_back: 48,
  calls_back: 64,
  results_back: 3,
  marks: 480,
  words_marked: 160,
  /** Answers: text, each call's input as JSON, calls, values in an input. */
  answer: 12_000,
  answer_calls: 8,
  answer_values: 200,
  /** Learning: steps and agents of one model, ways to say one thing, decisive marks (dimensions of the vector). */
  steps: 100_000,
  groups: 2_000,
  group_steps: 2_000,
  examples: 240,
  classes: 64,
  dimensions: 128,
  rules: 6,
  prototypes: 1_000,
  neighbours: 12,
} as const;
/** Address of a service that an operator names. */
export const ENDPOINT_CHARACTERS = 2_048;
/** Relegation: bodies of up to this size may be shown to the student; larger ones are forwarded at once. */
export const STEP_BODY_BYTES = 2 * MIB;
/** Steps that one server thread has at the student at once, and what their bodies may hold together; more are forwarded. */
export const STEPS_UNDER_WAY = 64;
export const STEPS_UNDER_WAY_BYTES = 64 * MIB;
/** Credentials that the upstream has taken, as a server thread remembers them: so many, and for so long after it last did. */
export const STUDENT_CREDENTIALS = { entries: 10_000, fresh_ms: HOUR_MS } as const;
/** How long a step waits for the rest of its body before it is forwarded as it comes in. */
export const STEP_BODY_WAIT_MS = 1_000;
/** How long a step waits for a student that answers itself, and for one that asks a service. */
export const STUDENT_TIMEOUT_MS = { exemplar: 100, http: 10_000 } as const;
export const STUDENT_TIMEOUT_MAX_MS = 600_000;
/** What a service that stands behind a student may answer. */
export const STUDENT_SERVICE_ANSWER_BYTES = 1 * MIB;
/** Text and calls of its answer; what it thinks beside them is not counted. */
export const SERVICE_CONTENT_BYTES = 64 * KIB;
/** How long its answer may be where the client names no length and its wire wants one; every model may say so much. */
export const SERVICE_ANSWER_TOKENS = 4_096;
/** Runs whose course the student's thread remembers, and answers of its own that a conversation may go on from. */
export const RELEGATED_RUNS = 50_000;
export const RELEGATED_ANSWERS = 100_000;
/** Runs that a server thread remembers to tell a student of that is being started again. */
export const UNTOLD_RUNS = 10_000;
/** Answers in shadow mode that wait for the upstream's, to be compared. */
export const SHADOWED_ANSWERS = 1_000;
/** What is kept with an exchange of what relegation decided; a student's answer that makes it longer is left out. */
export const DECISION_CHARACTERS = 32_768;
/** The upstream's answer as far as it is compared; longer ones are not. */
export const SHADOWED_ANSWER_BYTES = 2 * MIB;
/**
 * The watch over a student (src/student/model/drift-watch.ts). The first agents and kinds of answers that come up are
 * watched. The chance that anything of an agent that keeps its promise is ever suspended is at most the sum of the two α.
 * With few comparisons `young_factor` times as many steps are audited; it falls to 1 as they become `trusted`.
 */
export const DRIFT = {
  agents: 200,
  kinds: 60,
  alpha_agent: 0.002,
  alpha_kinds: 0.008,
  young: 10,
  young_factor: 8,
  trusted: 70,
} as const;
/** The file in which the watch is kept, and how soon a change of it is written. */
export const WATCH_FILE_BYTES = 8 * MIB;
export const WATCH_SAVE_MS = 2_000;
/** The student's ledger: days that are kept, agents of a day, its file, and how soon a change of it is written. */
export const LEDGER = { days: 90, agents: 100, file_bytes: 8 * MIB } as const;
export const LEDGER_SAVE_MS = 2_000;
/** Schema of a tool that a call is held against: as JSON, and in places that it may have to be looked at. */
export const TOOL_SCHEMA_CHARACTERS = 64 * KIB;
export const TOOL_SCHEMA_WEIGHT = 20_000;
/** Schemas that are kept ready. */
export const TOOL_SCHEMAS_KEPT = 256;
/** Models in GW_PRICES. */
export const PRICED_MODELS_MAX = 1_000;
/** How long a student that a round has made may serve. */
export const STUDENT_VALID_MS = 30 * 24 * HOUR_MS;
/** How often the student's directory is looked at. */
export const STUDENT_LOOK_MS = 3_000;
/** A student's thread must have read its directory within the first time, and later answer a ping within the second. */
export const STUDENT_LOAD_MS = 120_000;
/** A start waits so long for the student before it listens: runs that begin before it is there are the upstream's. */
export const STUDENT_START_MS = 5_000;
export const STUDENT_PING_MS = 5_000;
/** The stats wait no longer for what is known of the student. */
export const STUDENT_WATCH_MS = 500;
/** JavaScript heap of a student's thread; beyond it the thread ends, the process does not. */
export const STUDENT_HEAP_MB = 2_048;
/** Wait before a student's thread that ended is started again: doubles from the first to the last. */
export const STUDENT_RESTART_MS = { first: 200, last: 30_000 } as const;
/** Sealed files that a command has open at once: each keeps up to 64 MiB of what it unpacked. */
export const OPEN_CAPTURE_FILES = 2;
/**
 * Bytes that are looked at to find the secrets of one exchange: so many, and so many more for each byte of it. Beyond that, or with
 * more masks, pieces of a streamed text or frames in a body, the body is withheld: nobody knows what is in the rest.
 */
export const REDACTION_WORK = { bytes: 4 * MIB, for_each_byte: 96 } as const;
export const MASKS_PER_BODY = 100_000;
export const STREAM_PIECES_MAX = 1_000_000;
export const STREAM_FRAMES_MAX = 250_000;
/** Images and documents that are taken out of one body; further ones stay in it. */
export const FILES_PER_BODY = 1_000;
/** Layers of compression that one body may lie in. */
export const BODY_CODINGS_MAX = 4;
/**
 * What a compressed body may unpack to without being asked, and what it may unpack to at most: so many bytes, and so many more
 * for each of its own. Between the two it costs processor time, of which all bodies together get so much a second, and so much
 * at once. A body that has no such time left is withheld; one that is larger than the most is kept up to there.
 */
export const DECOMPRESSION = {
  free_bytes: 64 * KIB,
  free_for_each_byte: 12,
  most_bytes: 2 * MIB,
  most_for_each_byte: 256,
  ms_per_second: 100,
  burst_ms: 500,
} as const;
/** Images and documents inside bodies from this size on are stored once, by their SHA-256. */
export const ATTACHMENT_BYTES_MIN = 1 * KIB;

/** Headers that SVC_RUN_HEADERS may name. */
export const RUN_HEADERS_MAX = 16;
/** Child runs that a captured run names; it counts further ones. */
export const NAMED_CHILD_RUNS = 50;

/** Routes that GW_ROUTES may name, and headers that one of them may add. */
export const UPSTREAM_ROUTES = 64;
/** Longest text of GW_ROUTES, or of the file that it names. */
export const ROUTES_FILE_BYTES = 256 * KIB;
/** A region under a prefix of GW_ROUTES: providers write `us-east-1`, `europe-west4`, `us` and `global`. */
export const ROUTE_REGION = /^[a-z]{2,16}(?:-[a-z]{1,16}){0,3}(?:-?\d{1,2})?$/;

/** A region as it stands in `/bedrock/{region}`. Lower case only, so that it can be put into a host name as it is. */
export const BEDROCK_REGION = /^[a-z]{2}(-[a-z]+)+-\d$/;
/** Longest region; the pattern alone has no upper bound. A DNS label's (RFC 1035, 2.3.4). */
export const BEDROCK_REGION_CHARACTERS = 63;

/** What is kept of a submitted trace, in UTF-16 units and steps: beyond it texts are cut and middle steps left out. */
export const TRACE_BOUNDS = {
  steps: 20_000,
  task: 4_000,
  thought: 2_000,
  action: 200,
  action_input: 3_000,
  observation_head: 2_000,
  observation_tail: 1_500,
} as const;

/** What a distilled pattern holds at most, in UTF-16 units, and how many a trace gives (decision: 3). */
export const PATTERN_BOUNDS = { situation: 800, dead_ends: 1_200, unlock: 1_200, per_trace: 3 } as const;
/** Cosine from which on two situations are one (decision: 0.9). */
export const SAME_SITUATION_COSINE = 0.9;

/** Attempts at a trace before it is given up; a restart in the middle counts as one. */
export const DISTILL_ATTEMPTS = 5;
/** Traces that one thread distils at a time, and that it holds queued; one more is refused until there is room. */
export const DISTILLATIONS_AT_ONCE = 2;
export const QUEUED_TRACES = 2_000;
/** A queued trace unpacked. */
export const QUEUED_TRACE_BYTES = 256 * MIB;
/** What a model that writes patterns gets to answer, and how much of an answer is read. */
export const DISTILL_MODEL_MS = 15_000;
export const DISTILL_MODEL_ANSWER_BYTES = 256 * KIB;
/** Calls of a v2 trace, and steps of a legacy one as they are sent: as many as a body holds. */
export const TRACE_ITEMS_SENT = 500_000;

/** Identifiers that callers choose (decisions, v1), in code points. */
export const ID_CHARACTERS = 128;
/** `limit` of a listing (decisions, Identifiers, time, lists). */
export const PAGE_LIMIT_DEFAULT = 50;
export const PAGE_LIMIT_MAX = 200;
/** Characters of a cursor: the identifiers of a run as base64. */
export const CURSOR_CHARACTERS = 4_000;
/** Deletion by age: how often it looks, how many go in one portion, and how long requests have the thread between two. */
export const RETENTION = { every_ms: 600_000, rows: 50, pause_ms: 20 };
/** So long the answer to a deletion of a project or more waits for the content to go; what is left goes behind it. */
export const DELETION_WAIT_MS = 2_000;
/** So long after a deletion something may still come that was on its way: a distillation takes the longest. */
export const LATE_WRITES_MS = 600_000;
/** Deleted accounts whose rest is taken up in one go; the next go brings the others. */
export const DELETED_ACCOUNTS_RESUMED = 100;
/** Names of organizations and projects of which a thread remembers whether they were deleted. */
export const DELETED_NAMES_REMEMBERED = 10_000;
/** A hundred years: whoever keeps longer keeps for good. */
export const RETENTION_DAYS_MAX = 36_500;
/** Steps of a deleted run that go in one transaction; a longer run goes in several, and nobody sees it from the first on. */
export const RUN_DELETE_STEPS = 1_000;
/** Interrupted deletions of runs that are taken up in one go; the next go brings the rest. */
export const RUN_DELETIONS_RESUMED = 1_000;
/** Rows that one page of a filtered list looks at; then the page is short and has a cursor all the same. */
export const PAGE_SCAN_ROWS = 300;
/** Of those, so many before other requests have their turn. */
export const PAGE_SLICE_ROWS = 100;
/** The same of patterns, which are some kilobytes each. */
export const PATTERN_SCAN_ROWS = 300;
/** Runs brought into the lists in one transaction, where an earlier version has not written them there. */
export const RUN_LISTING_ROWS = 500;
/** Keys in SVC_KEYS: each is compared with every credential. */
export const STATIC_KEYS_MAX = 1_000;
/** Names in ALLOWED_HOSTS. */
export const ALLOWED_HOSTS_MAX = 1_000;
/** Origins in CORS_ALLOWED_ORIGINS. */
export const CORS_ORIGINS_MAX = 1_000;
/** Of a body beyond its cap so much more is read and dropped, for the client to see its 413; then the connection ends. */
export const DROPPED_BODY_BYTES = 64 * MIB;
/**
 * What the API's request bodies that are still on their way hold together on a server thread; beyond it the oldest gets 503.
 * Smaller ones than the second count for nothing: there are no more of them than connections.
 */
export const OPEN_BODIES_BYTES = 512 * MIB;
export const OPEN_BODY_BYTES_MIN = 64 * 1024;
/**
 * A body of JSON: deeper, with more values (keys and list items), or with more keys in one object it is refused before it
 * is parsed. Objects of many keys cost most.
 */
export const JSON_BOUNDS = { depth: 512, values: 250_000, keys: 10_000 } as const;
/**
 * What is read of one OTLP request, beyond the bound of its body, which holds before and after gzip: spans or log records, values
 * of attributes, how deep these nest, and tool calls that become steps, in all and at once; of a step's key.
 */
export const OTLP_BOUNDS = {
  records: 20_000,
  values: 250_000,
  depth: 32,
  steps: 2_000,
  steps_at_once: 32,
  key_characters: 128,
  /** Of a conversation that stands as JSON in one attribute; a longer one is not looked into. */
  messages_characters: MIB,
} as const;
/**
 * The export of captured turns over OTLP: how often it looks for new ones, what goes into one request, exchanges that may wait before the
 * oldest are given up, waits between attempts and the longest that a collector may ask for, what a stop waits, V8's heap and the waits
 * between starts of its process, ends without progress after which a batch is given up, what an answer may hold, runs that are remembered,
 * turns that are looked at again at a start, tool calls of one turn, and characters of a text and of a conversation.
 */
export const OTEL_EXPORT = {
  look_ms: 1_000,
  batch_exchanges: 64,
  batch_bytes: 2 * MIB,
  waiting_exchanges: 100_000,
  retry_ms: { first: 1_000, last: MINUTE_MS },
  retry_after_ms_max: 5 * MINUTE_MS,
  stop_ms: 5_000,
  heap_mb: 512,
  restart_ms: { first: 1_000, last: MINUTE_MS },
  ends_per_batch: 3,
  answer_bytes: 64 * KIB,
  runs: 10_000,
  looked_back: 2_000,
  tools_per_turn: 128,
  text_characters: 32_768,
  messages_characters: 131_072,
} as const;
/** What a 422 tells of the request: errors listed, and of an offending value characters, values and levels. */
export const ECHO_BOUNDS = { errors: 100, characters: 16_384, values: 100, depth: 8 } as const;
/** Verified credentials that a server thread remembers, and for how long (document 2: about 60 seconds). */
export const CREDENTIAL_CACHE = { entries: 50_000, fresh_ms: 30_000 } as const;
/** A bearer credential; JWTs of large identity providers stay below it. */
export const CREDENTIAL_CHARACTERS = 8_192;
/** A token in the dashboard's cookie; browsers keep 4,096 characters of a cookie, its name and attributes included. */
export const SESSION_COOKIE_CHARACTERS = 3_900;
/** Keys whose rate is counted in shared memory at once; further ones are counted by actors. */
export const RATE_SLOTS = 65_536;
/**
 * Credentials that are not valid: what an address may try at once (decisions, Rate limits), and buckets in shared memory.
 * Addresses that fall into one bucket share it: more of them only make wrong credentials be refused sooner.
 */
export const FAILED_SIGN_INS = { burst: 100, buckets: 65_536 } as const;
/** A free-form object inside a body (`metadata`). */
export const FREE_OBJECT_BOUNDS = { depth: 32, values: 10_000, characters: 262_144 } as const;

/** A finding, in code points (document 2): what is longer is cut. */
export const FINDING_BOUNDS = { content: 8_000, file_path: 512, finding_type: 64, query: 2_000 } as const;
/** Metadata of a finding as JSON, in UTF-16 units: what is longer is refused, half an object means nothing. */
export const FINDING_METADATA_CHARACTERS = 16_384;
/** Findings that a code base holds; one more is refused (409). Its vectors are in memory while it is in use. */
export const FINDINGS_PER_CODEBASE = 10_000;
/** Name of a code base, in code points. */
export const CODEBASE_ID_CHARACTERS = 256;
/** Paths in one request for coverage or invalidation. */
export const FINDING_PATHS = 10_000;
/** Results of a recall, as of a retrieval (document 2). */
export const FINDINGS_TOP_K = 50;

/** Live stream: longest text of an event in UTF-16 units, events and bytes that a hub remembers for an organization. */
export const LIVE_TEXT_CHARACTERS = 200;
export const LIVE_RING_EVENTS = 10_000;
export const LIVE_RING_BYTES = 16 * MIB;
/** What a reader of the stream may leave untaken before it is dropped, and all readers of a server thread together. */
export const LIVE_BUFFERED_BYTES = 256 * KIB;
export const LIVE_BUFFERED_TOTAL_BYTES = 128 * MIB;
/** A ticket for the live stream: how long it opens one, and how long it may be (a query is part of a head of 64 KiB). */
export const STREAM_TICKET = { seconds: 60, characters: 32_768 } as const;
/** Readers of the stream on one server thread. */
export const LIVE_READERS = 20_000;

/** Names inside a run start (agent, model, framework, version), in code points. */
export const RUN_NAME_CHARACTERS = 200;
/** The task of a run; longer than any instruction that is worth comparing steps with. */
export const RUN_TASK_CHARACTERS = 65_536;
/** Texts of a step. A step that is too long must not be lost to telemetry, so the body's own cap is near. */
export const STEP_TEXT_CHARACTERS = 1_048_576;
/** Tokens of one step: ten million such steps still add up exactly. */
export const STEP_TOKENS_MAX = 100_000_000;
/** Outcome of a run (decisions, v1). */
export const RUN_OUTCOME_CHARACTERS = 200;
/** Steps that one evaluation looks at. */
export const EVALUATE_STEPS_MAX = 1_000;
/** What is kept of a step's texts beside its scores, in UTF-16 units. */
export const STEP_COPY = { action: 200, action_input: 400, thought: 400, observation: 600 } as const;
/** How long the payment processor may take over a request, a second attempt of its library included. */
export const BILLING_REQUEST_MS = 10_000;
/** Age at which a webhook's signature no longer counts, in seconds (decisions, Usage and billing). */
export const WEBHOOK_TOLERANCE_S = 300;
/** Names of the control plane (document 1, Limits), in characters. */
export const ORG_NAME_CHARACTERS = 100;
export const PROJECT_NAME_CHARACTERS = 100;
export const KEY_NAME_CHARACTERS = 50;
export const FEEDBACK_CHARACTERS = 5_000;
export const FEEDBACK_PAGE_CHARACTERS = 500;
export const DISPLAY_NAME_CHARACTERS = 200;
export const LOOKUP_KEY_CHARACTERS = 200;
/** How long a rotated key may live on: a week. */
export const KEY_OVERLAP_SECONDS_MAX = 604_800;
/** The live stream is told of an organization over its cap this often at most; so many organizations are remembered. */
export const CAPPED_TOLD = { every_ms: 600_000, orgs: 10_000 };
/** How far a request is looked through for fields that its endpoint does not know: those named, of a list the first items. */
export const UNKNOWN_FIELDS = { names: 8, name_characters: 48, items: 20 };
/** Days of a usage report. */
export const USAGE_DAYS_DEFAULT = 30;
export const USAGE_DAYS_MAX = 365;
/** Organizations whose past days a server thread remembers: some 70 KB each. */
export const USAGE_ORGS_REMEMBERED = 200;
/** An organization's latest interventions that are known by name: one that is asked for again is not counted again. */
export const USAGE_ONCE_NAMES = 256;
/** What a thread remembers of /auth/bootstrap, and how long (document 1, Limits). */
export const BOOTSTRAP_CACHE = { entries: 10_000, fresh_ms: 10_000 } as const;
/** How long the link on the terminal signs its reader in. */
export const OWNER_TOKEN_HOURS = 24;
/** How long a token holds that this service signs itself. */
export const TOKEN_HOURS_DEFAULT = 720;
export const TOKEN_HOURS_MAX = 8_760;
/** What an organization or a user may have at once; one more is 409. */
export const ORGS_PER_USER_MAX = 500;
export const MEMBERS_PER_ORG_MAX = 5_000;
export const PROJECTS_PER_ORG_MAX = 5_000;
export const KEYS_PER_ORG_MAX = 5_000;
/** Requests by API key are written so often, of so many keys at once. */
export const KEY_USES_EVERY_MS = 2_000;
export const KEY_USES_WAITING = 10_000;
/** Keys whose requests one answer tells, the busiest; of the newest so many. */
export const KEY_USAGE_SHOWN = 100;
export const KEY_USAGE_READ = 1_000;
/** Invitations that are shown to a user at once. */
export const INVITATIONS_SHOWN_MAX = 100;
/** How long an invitation stands (decisions, Identifiers and roles). */
export const INVITATION_DAYS = 7;
/** Custom profiles of one organization. */
export const PROFILES_PER_ORG_MAX = 100;
/** Largest weight in a custom profile; only their proportions count. */
export const PROFILE_WEIGHT_MAX = 1_000_000;
/** Bytes of the identifiers that stand together in the key of an experiment's run (storage takes 1,978 with marks). */
export const RUN_IDS_BYTES_MAX = 1_960;

/** Patterns: of one scope (a project, an organization's commons, the universal ones), of all, and in one request. */
export const PATTERNS_PER_SCOPE = 250_000;
export const PATTERNS_MAX = 500_000;
export const PATTERNS_PER_REQUEST = 1_000;
/** Texts of an imported pattern, and what a retrieval is asked with, in code points. */
export const PATTERN_IMPORT_CHARACTERS = { situation: 4_000, dead_ends: 8_000, unlock: 8_000 } as const;
export const RETRIEVE_CONTEXT_CHARACTERS = 65_536;
/** Name of a model, of a failure category, in code points. */
export const MODEL_CHARACTERS = 200;
export const FAILURE_TYPE_CHARACTERS = 64;
/** Traces that a pattern remembers it came from; the last ones. */
export const PATTERN_SOURCES_KEPT = 20;
/** Results of a retrieval (document 2). */
export const RETRIEVE_TOP_K_MAX = 50;
export const RETRIEVE_TOP_K_DEFAULT = 5;
/** Similarity floor of a retrieval that names none (decisions, v1). */
export const RETRIEVE_MIN_SIMILARITY = 0.35;
/** How long a tool of `understudy mcp` waits for the API: the agent waits with it. */
export const MCP_CALL_MS = 20_000;

/** A text as far as it is embedded, in UTF-16 units, and in tokens of whatever model. */
export const EMBEDDING_TEXT_CHARACTERS = 4_096;
export const EMBEDDING_TOKENS_MAX = 2_048;
/** One run of the model: texts, and tokens with the padding. */
export const EMBEDDING_BATCH_TEXTS = 32;
export const EMBEDDING_BATCH_TOKENS = 16_384;
/** Words whose tokens a model's thread remembers, some 200 bytes each. */
export const TOKEN_WORDS_REMEMBERED = 16_384;
/** What may wait for the model on one thread; more is refused as unavailable. */
export const EMBEDDING_QUEUE_TEXTS = 4_096;
export const EMBEDDING_QUEUE_CHARACTERS = 8 * MIB;
/** Vectors of the last texts that retrievals were asked with, kept by their digests. */
export const EMBEDDINGS_REMEMBERED = 1_024;
/**
 * On the thread of a request: vectors that a search compares one by one in one scope, some 0.15 µs each, and scopes that it looks
 * into. Beyond that the index's thread searches.
 */
export const SHARED_SEARCH_COMPARED = 4_096;
export const SHARED_SEARCH_SCOPES = 16;
/** Retrievals whose searches a thread makes without a look at its sockets: some 0.2 ms each. */
export const SHARED_SEARCHES_A_TICK = 4;
/** Batches of texts that such a thread has under way at the model. */
export const SHARED_SEARCH_RUNS = 4;
/** The list beside a saved graph: 250,000 places of some 50 bytes, twice for what was removed. */
export const GRAPH_LIST_BYTES = 64 * MIB;
/** A graph is saved when nothing was added to it for so long, or a good part of it is new. */
export const GRAPH_QUIET_MS = 10_000;
/** How often traces are looked for whose distillation was interrupted. */
export const RESUME_TRACES_MS = 30_000;
/** Calls of the compute pool that wait for a thread, and how long one may take in all. */
export const COMPUTE_QUEUE_CALLS = 256;
export const COMPUTE_DEADLINE_MS = 60_000;
/** One request to a remote embedding service, and the largest answer that is read. */
export const EMBEDDING_REMOTE_TEXTS = 96;
export const EMBEDDING_REMOTE_TIMEOUT_MS = 20_000;
export const EMBEDDING_REMOTE_ANSWER_BYTES = 32 * MIB;
/** Requests to the remote service at a time, and the wait before the one second attempt. */
export const EMBEDDING_REMOTE_PARALLEL = 4;
export const EMBEDDING_REMOTE_RETRY_MS = 500;
/** Waits before a service that was down at the start is asked again. */
export const EMBEDDING_REMOTE_RETRY_FIRST_MS = 1_000;
export const EMBEDDING_REMOTE_RETRY_MAX_MS = 30_000;
export const EMBEDDING_DIMENSIONS_MAX = 8_192;
/**
 * Greatest number of a vector, of either sign: what has length 1 holds none beyond 1. The native graph has the same bound, with
 * which no product leaves what its 32 bits can hold.
 */
export const VECTOR_NUMBER_MAX = 2 ** 20;
/**
 * What runs have promised in a redo log before it is in the database: so much at most, after how long it is brought there, and how
 * soon a database that refused it is tried again. While another thread writes, it waits that long, so many times at most.
 */
export const REDO_LOG = { bytes: MIB, delay_ms: 5, retry_ms: 1_000, yield_ms: 1, yields_max: 20 } as const;
/** Folders and files that others may use: so many are counted at the start, one is named. */
export const LOOSE_PLACES_MAX = 1_000;

// ---- capture: what waits, what is remembered ----

/** Raw blocks that wait to be packed, and their bytes; what comes beyond is compressed at once. */
export const RAW_BLOCKS_MAX = 65_536;
export const RAW_BLOCKS_BYTES_MAX = 2 ** 35;
/** Memory for earlier bodies that new ones are stored against. */
export const BASE_CACHE_BYTES = 64 << 20;
/** Responses longer than this are not kept as bases. */
export const RESPONSE_BASE_BYTES_MAX = 256 << 10;
/** Turns that later ones can be found to extend. */
export const INDEXED_TURNS_KNOWN = 50_000;
/** Of those, how many are taken along into a new file. */
export const INDEXED_TURNS_CARRIED = 10_000;
/** Kept of unpacked blocks, and again of bodies. */
export const CAPTURE_READER_CACHE_BYTES = 32 << 20;
/** Addresses in OPERATORS. */
export const OPERATORS_MAX = 1_000;
/** JavaScript heap of the process that reads captures for the API; beyond it that process ends. */
export const CAPTURE_READER_HEAP_MB = 768;
/** Questions to it that may wait; a further one is refused. */
export const CAPTURE_READS_MAX = 32;
/** A question that is not answered by then is given up, and the process with it: it may hang. */
export const CAPTURE_READ_MS = 60_000;
/** A process that nobody asks is ended after so long. */
export const CAPTURE_READER_IDLE_MS = 5 * MINUTE_MS;
/** Wait before one that ended by itself is started again: doubles from the first to the last. */
export const CAPTURE_READER_RESTART_MS = { first: 500, last: 30_000 } as const;
/** What the dashboard's first page adds up of captures: the newest exchanges, the parts of its span, and runs that are looked at. */
export const CAPTURE_ACTIVITY = { exchanges: 50_000, parts: 48, runs: 5_000, hours_max: 720 } as const;
/** Runs in its list, about a kilobyte each; beyond, the oldest leave it. */
export const CAPTURE_LISTED_RUNS = 100_000;
/** How long a question waits for exchanges that are read in; then it is answered from the newest, and told how far that is. */
export const CAPTURE_CATCH_UP_MS = 150;
/** How the list of runs is read and kept. */
export const CAPTURE_LIST = {
  /** Exchanges that are added at a time; then a question may be answered. */
  exchanges_added: 4_096,
  /** The newest ones, which are listed first while many are to be read in. */
  newest_exchanges: 8_192,
  /** Kept at the latest after so many exchanges, or changed runs. */
  exchanges_unsaved: 32_768,
  runs_unsaved: 500,
  /** First words and verdicts that nobody has asked for: read for so long, and then none for so long. */
  reading_ms: 5,
  pause_ms: 15,
  /** Of runs that went on later they are not read: more is about to come. */
  settled_ms: MINUTE_MS,
} as const;
/** A process that is told to end keeps what it has found out first, for so long. */
export const CAPTURE_READER_STOP_MS = 2_000;
/** Time that a list spends on bodies: what is not read by then (first words, whether golden) is null. */
export const CAPTURE_LIST_READING_MS = 15;
/** Exchanges of the longest run that is judged by its bodies. */
export const CAPTURE_JUDGED_EXCHANGES = 2_000;
/** Runs that lists have shown unjudged and that are judged next. */
export const CAPTURE_WANTED_RUNS = 1_000;
/** Characters of a run's first words in a list. */
export const CAPTURE_TASK_CHARACTERS = 200;
/** Characters of what a list of runs is searched for. */
export const CAPTURE_SEARCH_CHARACTERS = 200;
/** JSON of one page of a conversation: its last turn may go beyond. A larger turn is told without its content. */
export const CONVERSATION_PAGE_CHARACTERS = 4 * MIB;
export const CONVERSATION_TURN_CHARACTERS = 8 * MIB;

/** Exchanges that a reader indexes for itself, some 30 bytes each; beyond, records come without model, usage and found run. */
export const READER_OWN_INDEX_MAX = 1_000_000;
/** Batches at the writer at once; while they are under way the next one grows… */
export const CAPTURE_BATCHES_UNDER_WAY = 3;
/** …unless it holds `CAPTURE_BATCH_BYTES`: a tick of a busy server thread's loop is long enough for the writer to run dry. */
export const CAPTURE_LARGE_BATCHES_UNDER_WAY = 16;
/** A batch leaves when it holds this much… */
export const CAPTURE_BATCH_EXCHANGES = 256;
export const CAPTURE_BATCH_BYTES = 16 * MIB;
/** Pools kept at once. Regions come from clients, so their number must be bounded; there are some 40 real ones. */
export const UPSTREAM_POOLS_MAX = 64;

// ---- proxy mode ----

/** Tunnels at once, of both kinds; a further CONNECT gets 503. Where descriptors are few, a share of them. */
export const PROXY_TUNNELS_MAX = 1_024;
/** Descriptors that a terminated tunnel may need: the client's, both ends of the way to the gateway, the upstream's. */
export const PROXY_TUNNEL_DESCRIPTORS = 4;
/** Entries of GW_PROXY_HOSTS with those that `default` stands for: each is a name in the authority's certificate. */
export const PROXY_HOSTS_MAX = 500;
/** Hosts at once that have a way to the gateway; wildcards are for any number. */
export const PROXY_ROUTES_MAX = 256;
/** Certificates that are kept, one a host. */
export const PROXY_LEAVES_MAX = 256;
/** The head of a CONNECT, and how long it and the TLS handshake behind it may take, each. */
export const PROXY_HEAD_BYTES = 16 * KIB;
export const PROXY_HEAD_MS = 10_000;
export const PROXY_HANDSHAKE_MS = 10_000;
/** To set up a blind tunnel before the client gets its 504. */
export const PROXY_CONNECT_MS = 30_000;
/** A blind tunnel through which nothing passes for so long is ended; and one of which one side has ended. */
/** Names of blind tunnels that are looked up at once. libuv gives lookups two of its four threads; the other is the gateway's. */
export const PROXY_LOOKUPS_AT_ONCE = 1;
export const PROXY_IDLE_MS = HOUR_MS;
export const PROXY_HALF_OPEN_MS = MINUTE_MS;
/** A client that does not take what is left of an answer whose connection has ended. */
export const PROXY_LINGER_MS = 30_000;
/** Requests at once on one HTTP/2 connection, and how long one without any is kept. */
export const PROXY_STREAMS_MAX = 100;
export const PROXY_SESSION_IDLE_MS = MINUTE_MS;
/** How long certificates are good for, and how much of that is left when there is another. */
export const PROXY_AUTHORITY_DAYS = { lifetime: 730, renewal: 120 } as const;
export const PROXY_LEAF_HOURS = { lifetime: 48, renewal: 24 } as const;
/** V8's heap of the proxy thread; bytes that pass lie beside it. */
export const PROXY_HEAP_MB = 256;
/** Wait before the proxy thread is started again: doubles from the first to the last. */
export const PROXY_RESTART_MS = { first: 200, last: 30_000 } as const;
/** GW_UPSTREAM_CA. */
export const UPSTREAM_CA_BYTES = 1 * MIB;

assert(DEFAULTS.GW_MAX_CAPTURE_BYTES <= CAPTURE_BYTES_MAX, 'the default body cap is inside its own range');
assert(
  2 * DEFAULTS.GW_MAX_CAPTURE_BYTES <= DEFAULTS.GW_MAX_QUEUE_BYTES,
  'one exchange with both bodies at the cap fits into the writer queue',
);
assert(DEFAULTS.GW_MAX_CAPTURE_BYTES <= DECODED_BODY_BYTES, 'an uncompressed body at the cap is decodable');
assert(DEFAULTS.RATE_LIMIT_PER_SEC <= DEFAULTS.RATE_LIMIT_BURST, 'a full second is inside the burst');
assert(CREDENTIAL_CACHE.fresh_ms < MINUTE_MS, 'a key that another process revoked fails within a minute');
assert(FREE_OBJECT_BOUNDS.depth < JSON_BOUNDS.depth, 'a free-form object at its bound fits into a body');
assert(FREE_OBJECT_BOUNDS.values <= JSON_BOUNDS.keys, 'a free-form object of keys alone fits into a body');
assert(HTTP_HEAD_BYTES <= UPSTREAM_HEAD_BYTES, 'an upstream that echoes our head is still understood');
assert(UPSTREAM_TIMEOUT_MS >= HOUR_MS, 'no read timeout below one hour');
assert(
  UPSTREAM_CONNECT_MS <= DRAIN_DEADLINE_MS,
  'a request that is still connecting cannot outlive the drain',
);
assert(STEP_BODY_BYTES <= DISTILL_BODY_BYTES, 'whatever may be served may be learnt');
assert(2 * STEP_BODY_BYTES <= STUDENT_CORE.scope_read, 'a setting that is not looked at may not be served');
assert(ATTACHMENT_BYTES_MIN < DEFAULTS.GW_MAX_CAPTURE_BYTES, 'an attachment fits into a stored body');
assert(EMBEDDING_BATCH_TEXTS <= EMBEDDING_QUEUE_TEXTS, 'a whole batch can wait');
assert(EMBEDDING_TOKENS_MAX <= EMBEDDING_BATCH_TOKENS, 'the longest text fits into a run');
