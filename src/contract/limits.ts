/** Bounds of the API that several schemas share. Lengths are in code points. Constants only; any thread. */

/** Maximum length of the names in the start of a run (agent, model, framework, version). */
export const RUN_NAME_CHARACTERS = 200;
/** Maximum length of the task of a run. The monitors compare the steps with the task. */
export const RUN_TASK_CHARACTERS = 65_536;
export const RUN_OUTCOME_CHARACTERS = 200;
/**
 * Maximum length of a text of a step. It is close to the maximum length of a body, because telemetry must not lose a
 * long step.
 */
export const STEP_TEXT_CHARACTERS = 1_048_576;
/** Maximum number of tokens of one step. The sum of ten million steps with this maximum is still exact. */
export const STEP_TOKENS_MAX = 100_000_000;
/** Default and maximum `limit` of a listing (document 4, "Identifiers, time, lists"). */
export const PAGE_LIMIT_DEFAULT = 50;
export const PAGE_LIMIT_MAX = 200;
/** Maximum length of a cursor. The longest cursors contain the identifiers of a run in base64. */
export const CURSOR_CHARACTERS = 4_000;
/** Maximum lengths of names in the control plane (document 1, Limits). */
export const ORG_NAME_CHARACTERS = 100;
export const KEY_NAME_CHARACTERS = 50;
/** Maximum number of keys in one answer about usage: those with the most requests. */
export const KEY_USAGE_SHOWN = 100;
export const CODEBASE_ID_CHARACTERS = 256;
/** Maximum number of results of a recall (document 2). */
export const FINDINGS_TOP_K = 50;
/** Maximum length of the text of a retrieval, and maximum and default number of its results (document 2). */
export const RETRIEVE_CONTEXT_CHARACTERS = 65_536;
export const RETRIEVE_TOP_K_MAX = 50;
export const RETRIEVE_TOP_K_DEFAULT = 5;
/** Maximum number of patterns that one request may import. */
export const PATTERNS_PER_REQUEST = 1_000;
