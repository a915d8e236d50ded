/** Bounds that several parts of a student share. Constants only; any thread. */

/** Minimum number of golden runs that a student needs. */
export const GOLDEN_RUNS_MIN = 12;
/**
 * Bounds on what a student's core reads of a step, and on what it learns. Lengths are in UTF-16 units unless a name
 * says otherwise.
 */
export const STUDENT_CORE = {
  /**
   * Lengths in a step: of its task, words, calls and results together; of the task; of each text of the user's later
   * words; of the prompt's changing lines; of its lines with a folder; of a result; of a call's input; and of one text
   * within JSON.
   */
  step: 14_000,
  task: 3_000,
  said: 1_500,
  system_changing: 800,
  system_folders: 1_200,
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
   * Number of characters at both ends of a task that are searched for values, and number of golden runs that must share
   * a value if only some runs have it (`learnFixedValues`).
   */
  task_wording: { beginning: 12_000, end: 4_000 },
  fixed_value_runs: 8,
  /** Maximum number of values that a model keeps as shared by all golden runs of an agent (`learnFixedValues`). */
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
  /** Of the copies of results and inputs: maximum depth, elements of a list, and values of all copies together. */
  json_depth: 8,
  json_items: 40,
  json_nodes: 400,
  /**
   * Maximum number of last messages that are read, of calls (and of results) among them that are remembered, and of
   * results of one tool beside its latest.
   */
  messages_back: 48,
  calls_back: 64,
  results_back: 3,
  /** Maximum number of marks of a step, without those of lists and of the system prompt's numbers. */
  marks: 480,
  /** Maximum number of marks of lists, beside the others. */
  list_marks: 120,
  /** Maximum number of words of one text that are marked. */
  words_marked: 160,
  /**
   * An answer: characters of its texts and of its calls' inputs as JSON, together; number of calls; number of values in
   * an input.
   */
  answer: 12_000,
  answer_calls: 8,
  answer_values: 200,
  /** Learning: maximum number of steps, and of stages of all agents together. */
  steps: 100_000,
  groups: 2_000,
  /** Of one stage: steps, steps from which templates are made, classes of answers, dimensions of the vector. */
  group_steps: 2_000,
  examples: 240,
  classes: 64,
  dimensions: 128,
  /** Rules of one slot that agree. A slot whose rules only together cover all golden steps may have twice as many. */
  rules: 6,
  /** Prototypes of one stage, and prototypes that are searched for a step. */
  prototypes: 1_000,
  neighbours: 12,
} as const;
