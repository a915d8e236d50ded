/** Bounds of received and sent OTLP requests. Constants only; any thread. */

/** Bounds of one OTLP request, in addition to the size of its body, which is bounded before and after decompression. */
export const OTLP_BOUNDS = {
  /** Maximum number of spans, log records or metrics. */
  records: 20_000,
  /** Maximum number of values, and of levels to which they are nested. */
  values: 250_000,
  depth: 32,
  /** Maximum number of tool calls that become steps, and how many of them are handled concurrently. */
  steps: 2_000,
  steps_at_once: 32,
  /** Maximum length of a step's key. A longer key is replaced by its hash. */
  key_characters: 128,
  /** Maximum length of a conversation in one attribute, as JSON. A longer conversation is not read. */
  messages_characters: 1 << 20,
} as const;
/** The export of captured turns over OTLP. */
export const OTEL_EXPORT = {
  /** How many turns at the end of a run are searched for the turn with a tool call. */
  turns_per_run: 8,
  /** Time between two searches for new turns. */
  look_ms: 1_000,
  /** Bounds of one request. */
  batch_exchanges: 64,
  batch_bytes: 2 << 20,
  /** Maximum number of exchanges that wait. If more wait, the oldest are given up. */
  waiting_exchanges: 100_000,
  /** Waits between attempts, and the longest wait that a collector may ask for. */
  retry_ms: { first: 1_000, last: 60_000 },
  retry_after_ms_max: 5 * 60_000,
  /** How long a stop waits for the export. */
  stop_ms: 5_000,
  /**
   * V8 heap of the export's process, delays before the process is restarted, and number of restarts without progress
   * after which a batch is given up.
   */
  heap_mb: 512,
  restart_ms: { first: 1_000, last: 60_000 },
  ends_per_batch: 3,
  /** Maximum size of a collector's answer. */
  answer_bytes: 64 << 10,
  /** Maximum number of runs that are remembered, and of turns that a start reads again. */
  runs: 10_000,
  looked_back: 2_000,
  /** Maximum number of tool calls of one turn, and of characters of a text and of a conversation. */
  tools_per_turn: 128,
  text_characters: 32_768,
  messages_characters: 131_072,
} as const;
