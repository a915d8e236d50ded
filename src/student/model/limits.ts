/** Bounds that several parts of a student share. Constants only; any thread. */

/** Minimum number of golden runs that a student needs. */
export const GOLDEN_RUNS_MIN = 12;
/**
 * Bounds on what a student's core reads of a step, and on what it learns. Lengths are in UTF-16 units unless a name
 * says otherwise.
 */
export const STUDENT_CORE = {
  /** A step: the total of all its sources, the largest text, and each other text. */
  step: 14_000,
  task: 3_000,
  said: 1_500,
  system_changing: 800,
  result: 5_000,
  call: 1_500,
  string: 1_200,
  /**
   * Maximum number of bytes, approximately, of system prompts whose sentences are kept: enough for the largest prompt
   * that is served.
   */
  prompts_kept_bytes: 32 << 20,
  system_sentences: 300,
  /** Maximum number of sentences of the system prompt whose numbers are compared one by one. */
  system_numbers: 60,
  /**
   * Maximum number of values that are distinguished in one sentence of the system prompt, in the whole prompt, and in
   * the task's fixed wording.
   */
  sentence_values: 32,
  system_values: 160,
  task_values: 64,
  /**
   * Characters at both ends of a task that are searched for these values, and golden runs needed to make a
   * value part of the rule.
   */
  task_wording: { beginning: 12_000, end: 4_000 },
  fixed_value_runs: 8,
  /** Maximum number of values that are part of an agent's rule. */
  fixed_values: 400,
  /**
   * Maximum total length of the blocks of a system prompt that are kept for comparison. All further blocks count as one
   * block.
   */
  prompt_characters: 512 << 10,
  /**
   * Longest sentence of a system prompt that may have changing places. A longer one is compared as a whole.
   */
  pattern_characters: 4_000,
  pattern_words: 400,
  /** Maximum number of words of an agent's fixed sentences that cannot be names. */
  fixed_words: 4_000,
  /** Maximum cost of the fingerprint of tools and settings: at most two units for each byte of a served body. */
  scope_read: 4 << 20,
  scope_depth: 200,
  /** Longest result that is read as JSON. Of a longer result, only the beginning and the end are read, as text. */
  json_parsed: 49_152,
  json_depth: 8,
  json_items: 40,
  json_nodes: 400,
  /**
   * Maximum number of earlier messages that are read, of calls among them that are remembered, and of earlier results
   * of one tool.
   */
  messages_back: 48,
  calls_back: 64,
  results_back: 3,
  marks: 480,
  /** Maximum number of marks of lists, beside the others. */
  list_marks: 120,
  words_marked: 160,
  /**
   * An answer: characters of its text, and of each call's input as JSON; number of calls; number of values in an input.
   */
  answer: 12_000,
  answer_calls: 8,
  answer_values: 200,
  /** Learning: steps and agents of one model, wordings of one answer, decisive marks (dimensions of the vector). */
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
