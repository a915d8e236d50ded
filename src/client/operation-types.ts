/**
 * The request and the answer of each operation of the API, with the names of the wire format. `node tools/client-types.ts` makes this file from
 * src/contract. Types; any thread.
 */

/** The tenant of a request with a static key or a JWT. A customer's key determines its tenant. */
export interface TenantNames {
  org_id?: string | undefined;
  project_id?: string | undefined;
}

export type MonitorName =
  | 'verification_skip'
  | 'claim_contradiction'
  | 'cyclic_compression'
  | 'semantic_loop'
  | 'silent_topic_drift'
  | 'infinite_loop';

export interface Health {
  status: 'ok';
  version: string;
}

export interface Retrieved {
  traces: Pattern[];
}

export interface Pattern {
  tier: 'e1' | 'e2' | 'e3';
  pattern_id: string;
  similarity: number;
  fields: { situation: string; dead_ends: string; unlock: string };
}

export interface PatternsImported {
  created: number;
  merged: number;
  patterns: { pattern_id: string; created: boolean }[];
}

export interface PatternPage {
  patterns: StoredPattern[];
  /** Send it back as `cursor` for the next page; null: this is the last page */
  next_cursor: string | null;
}

export interface StoredPattern {
  pattern_id: string;
  tier: 'e1' | 'e2' | 'e3';
  /** Project of an e1 pattern; null: another tier */
  project_id: string | null;
  fields: { situation: string; dead_ends: string; unlock: string };
  model: string;
  failure_type: string;
  /** How often the pattern was seen */
  support: number;
  /** The last traces from which the pattern was made */
  sources: string[];
  created_at: string;
  updated_at: string;
}

export interface RunStarted {
  run_id: string;
  status: 'running';
  started_at: string;
}

export interface ScoreBundle {
  scores: Scores;
  /** Mean of the scores, weighted by the profile. A single monitor changes it little: watch max_score */
  total_score: number;
  /** Monitors whose score reached its threshold in the profile */
  fired: MonitorName[];
  /** The highest of the scores */
  max_score: number;
  /** Whether any monitor fired */
  alarm: boolean;
}

export type Scores = Record<MonitorName, number>;

export interface RunFinished {
  run_id: string;
  status: 'finished';
  outcome: string;
  steps: number;
  tokens: number;
  duration_ms: number;
  max_total_score: number;
  fired: Record<MonitorName, number>;
}

export interface RunPage {
  runs: Run[];
  /** Send it back as `cursor` for the next page; null: this is the last page */
  next_cursor: string | null;
  /** Number of runs that match `q`, on all pages; null: not counted */
  matched_runs: number | null;
  /** Number of runs that were searched for this page */
  scanned_runs: number;
  /** false: older runs were not searched. Repeat the request, or request the next page */
  is_whole: boolean;
}

export interface Run {
  run_id: string;
  project_id: string;
  task: string;
  agent_name: string;
  model: string;
  framework: string;
  task_profile: string;
  codebase_id: string;
  experiment_id: string;
  arm: string;
  status: 'running' | 'finished';
  /** Empty while the run is running */
  outcome: string;
  /** The status that `status:` in a query matches: how the run ended, or that it is running */
  state: 'failed' | 'error' | 'running' | 'ok' | 'unknown';
  /** Who ended the run; null: the run is still running, or it is unknown */
  ended_by: 'person' | 'agent' | 'model' | 'client' | 'upstream' | 'gateway' | null;
  /** Why the run has this status */
  state_words: string;
  started_at: string;
  finished_at: string | null;
  duration_ms: number;
  steps: number;
  tokens: number;
  max_total_score: number;
  /** Steps at which each monitor fired */
  fired: Record<MonitorName, number>;
  /** The mark of a person or program; null: no mark */
  mark: 'good' | 'bad' | null;
  /** Without duplicates, in the order in which they were added */
  tags: string[];
  /** The note; empty: no note */
  note: string;
  /** 0 to 1; null: none */
  feedback_score: number | null;
}

export interface RunValues {
  /** The most frequent first */
  values: {
    /** The value, as it is written in a query */
    value: string;
    /** Number of matching runs with this value */
    runs: number;
  }[];
  /** false: there are more values, or runs that were not examined */
  is_whole: boolean;
}

export interface RunMarks {
  run_id: string;
  /** The mark of a person or program; null: no mark */
  mark: 'good' | 'bad' | null;
  /** Without duplicates, in the order in which they were added */
  tags: string[];
  /** The note; empty: no note */
  note: string;
  /** 0 to 1; null: none */
  feedback_score: number | null;
  /** Time of the last change, RFC 3339; null: the run has no marks */
  marked_at: string | null;
  /** The user or key of the last change; null: the run has no marks */
  marked_by: string | null;
}

export interface StepPage {
  steps: StepRecord[];
  /** Send it back as `cursor` for the next page; null: this is the last page */
  next_cursor: string | null;
}

export interface StepRecord {
  step_index: number;
  action: string;
  action_input: string | null;
  thought: string;
  observation: string | null;
  is_error: boolean;
  tokens: number;
  at: string;
  scores: Scores;
  /** Mean of the scores, weighted by the profile. A single monitor changes it little: watch max_score */
  total_score: number;
  /** Monitors whose score reached its threshold in the profile */
  fired: MonitorName[];
  /** The highest of the scores */
  max_score: number;
  /** Whether any monitor fired */
  alarm: boolean;
  /** The intervention that began or escalated with this step; null: none */
  intervention: { failure_type: string; level: 'nudge' | 'stop'; text: string } | null;
}

export interface StreamTicket {
  ticket: string;
  /** Seconds until the ticket expires. An open stream continues while the credential is valid */
  expires_in_s: number;
}

export interface Evaluation {
  inject: boolean;
  intervention_text: string;
  failure_type: '' | MonitorName;
  /** nudge: change course; stop: the nudge did not help */
  level: '' | 'nudge' | 'stop';
  fired: MonitorName[];
  scores: Scores;
  /** Mean of the scores, weighted by the profile. A single monitor changes it little: watch max_score */
  composite: number;
  /** The highest of the scores */
  max_score: number;
  /** Whether any monitor fired */
  alarm: boolean;
}

export interface TraceAccepted {
  trace_id: string;
  status: 'accepted';
  patterns_created: number;
}

export interface TraceQueued {
  trace_id: string;
  status: 'queued';
}

export interface TracePage {
  traces: TraceState[];
  /** Send it back as `cursor` for the next page; null: this is the last page */
  next_cursor: string | null;
}

export interface TraceState {
  trace_id: string;
  /** null: no project */
  project_id: string | null;
  status: 'queued' | 'distilling' | 'done' | 'failed';
  /** New patterns, and existing patterns into which patterns of the trace were merged */
  pattern_ids: string[];
  /** Number of new patterns */
  patterns_created: number;
  error: string | null;
  submitted_at: string;
  finished_at: string | null;
}

export interface ProfilePage {
  profiles: {
    name: string;
    weights: Record<MonitorName, number>;
    thresholds: Record<MonitorName, number>;
    is_built_in: boolean;
  }[];
  /** Send it back as `cursor` for the next page; null: this is the last page */
  next_cursor: string | null;
}

export interface Profile {
  name: string;
  weights: Record<MonitorName, number>;
  thresholds: Record<MonitorName, number>;
}

export interface ExperimentPage {
  experiments: { experiment_id: string }[];
  /** Send it back as `cursor` for the next page; null: this is the last page */
  next_cursor: string | null;
}

export interface ExperimentReport {
  experiment_id: string;
  arms: { on: ExperimentArm; off: ExperimentArm };
  effect: {
    success_rate_diff: number | null;
    ci95: [number, number] | null;
    p_value: number | null;
    always_valid_ci95: [number, number] | null;
  };
  srm: {
    expected_on: number;
    observed_on: number | null;
    chi_square: number | null;
    p_value: number | null;
    /** Logarithm of the p-value; finite even if the p-value itself is too small for a number */
    log10_p_value: number | null;
    /** Whether the split differs from the intended one (p < 0.001) */
    flagged: boolean;
    /** Units in each arm; a unit with runs in both arms counts in its first arm */
    units: { on: number; off: number };
    /** too_few_units: fewer than 8 units are expected in an arm, too few for the test */
    verdict: 'no_units' | 'too_few_units' | 'as_expected' | 'mismatch';
  };
  /** Units with runs in both arms. The effect counts only the runs of the first arm of each */
  mixed_units: number;
  /** Names of the first 50 units with runs in both arms */
  mixed_unit_names: string[];
  by_version: {
    svc_version: string;
    arm: 'on' | 'off';
    runs: number;
    successes: number;
    success_rate: number | null;
  }[];
}

export interface ExperimentArm {
  runs: number;
  finished: number;
  successes: number;
  success_rate: number | null;
  ci95: [number, number] | null;
  mean_steps: number | null;
  mean_tokens: number | null;
  mean_duration_ms: number | null;
}

export interface FindingStored {
  finding_id: string;
  created_at: string;
}

export interface CodebasePage {
  codebases: {
    codebase_id: string;
    /** Number of findings; null with a project filter */
    findings: number | null;
  }[];
  /** Send it back as `cursor` for the next page; null: this is the last page */
  next_cursor: string | null;
}

export interface Finding {
  finding_id: string;
  project_id: string;
  content: string;
  file_path: string;
  finding_type: string;
  metadata: Record<string, unknown>;
  created_at: string;
}

export interface FindingPage {
  findings: Finding[];
  total: number;
  /** Send it back as `cursor` for the next page; null: this is the last page */
  next_cursor: string | null;
}

export interface RecalledFindings {
  findings: RecalledFinding[];
}

export interface RecalledFinding {
  finding_id: string;
  project_id: string;
  content: string;
  file_path: string;
  finding_type: string;
  metadata: Record<string, unknown>;
  created_at: string;
  score: number;
}

export interface FindingsDeleted {
  deleted: number;
}

export interface FindingsCoverage {
  coverage: number;
}

export interface FindingsCleared {
  cleared: true;
}

export interface RetrieveInput {
  /** The task in a sentence; the search compares patterns with it */
  context: string;
  /** e1: patterns of the project, e2: of the organization, e3: universal. Absent: all tiers */
  tier?: 'e1' | 'e2' | 'e3' | null | undefined;
  top_k?: number | undefined;
  /** Less similar patterns are left out */
  min_similarity?: number | undefined;
  /** Among nearly equal patterns, those learned by a model of the same family come first */
  model?: string | null | undefined;
  /** Only patterns of exactly this category; empty: any */
  failure_type?: string | null | undefined;
  /** The project; ignored with a project’s own key */
  project_id?: string | null | undefined;
}

export interface PatternImportInput {
  /** e3 needs a static key */
  tier: 'e1' | 'e2' | 'e3';
  patterns: NewPatternInput[];
  /** Project of e1 patterns; default `default` */
  project_id?: string | null | undefined;
}

export interface NewPatternInput {
  situation: string;
  dead_ends: string;
  unlock: string;
  model?: string | null | undefined;
  failure_type?: string | null | undefined;
}

export interface RunStartInput {
  project_id?: string | null | undefined;
  run_id: string;
  agent_name?: string | undefined;
  task?: string | undefined;
  model?: string | undefined;
  framework?: string | undefined;
  task_profile?: string | undefined;
  codebase_id?: string | undefined;
  metadata?: Record<string, unknown> | null | undefined;
  experiment_id?: string | null | undefined;
  arm?: 'on' | 'off' | '' | null | undefined;
  assignment_unit?: string | null | undefined;
  svc_version?: string | null | undefined;
}

export interface StepInput {
  step_index: number;
  action?: string | undefined;
  action_input?: string | null | undefined;
  thought?: string | undefined;
  observation?: string | null | undefined;
  is_error?: boolean | undefined;
  tokens?: number | undefined;
}

export interface RunFinishInput {
  outcome: string;
}

export interface RunMarkChangeInput {
  /** How the run went; null: removes the mark */
  mark?: 'good' | 'bad' | null | undefined;
  /** All tags of the run, at most 32; null or []: none */
  tags?: string[] | null | undefined;
  /** Tags to add to those of the run */
  add_tags?: string[] | null | undefined;
  /** Tags to remove from the run */
  remove_tags?: string[] | null | undefined;
  /** Free text; null or empty: none */
  note?: string | null | undefined;
  /** Score from a user; null: none */
  feedback_score?: number | null | undefined;
}

export interface StreamTicketRequestInput {
  /** Only events of this project. A project's key always gets only the events of its project */
  project_id?: string | null | undefined;
}

export interface EvaluateInput {
  project_id?: string | null | undefined;
  model?: string | undefined;
  task?: string | undefined;
  task_profile?: string | undefined;
  steps?: EvaluateStepInput[] | undefined;
  run_id?: string | null | undefined;
}

export interface EvaluateStepInput {
  step_index?: number | undefined;
  action?: string | undefined;
  action_input?: string | null | undefined;
  thought?: string | undefined;
  observation?: string | null | undefined;
  is_error?: boolean | undefined;
  tokens?: number | undefined;
}

export interface TraceInput {
  project_id?: string | undefined;
  trace_id?: string | undefined;
  outcome?: string | undefined;
  steps?: TraceStepInput[] | undefined;
  task?: string | null | undefined;
  model?: string | null | undefined;
  task_profile?: string | null | undefined;
  run_id?: string | null | undefined;
  manifest?: TraceManifestInput | undefined;
  calls?: TraceCallRecordInput[] | undefined;
}

export interface TraceStepInput {
  step_index?: number | undefined;
  action?: string | undefined;
  action_input?: string | undefined;
  thought?: string | undefined;
  observation?: string | undefined;
  is_error?: boolean | undefined;
  tokens_used?: number | undefined;
}

export interface TraceManifestInput {
  trace_id: string;
  run_id?: string | null | undefined;
  agent_name?: string | null | undefined;
  task?: string | null | undefined;
  model?: string | null | undefined;
  framework?: string | null | undefined;
  task_profile?: string | null | undefined;
  codebase_id?: string | null | undefined;
  outcome?: string | null | undefined;
  started_at?: string | null | undefined;
  finished_at?: string | null | undefined;
  metadata?: Record<string, unknown> | null | undefined;
}

export interface TraceCallRecordInput {
  seq?: number | undefined;
  model?: string | null | undefined;
  request?: unknown | undefined;
  response?: unknown | undefined;
  usage?: unknown | undefined;
  started_at?: string | null | undefined;
  duration_ms?: unknown | undefined;
  is_error?: boolean | undefined;
}

export interface NewProfileInput {
  name: string;
  weights: Partial<Record<MonitorName, number | undefined>>;
  thresholds?: Partial<Record<MonitorName, number | undefined>> | null | undefined;
}

export interface FindingNoteInput {
  project_id?: string | null | undefined;
  content: string;
  file_path?: string | undefined;
  finding_type?: string | undefined;
  metadata?: Record<string, unknown> | null | undefined;
}

export interface FindingRecallInput {
  project_id?: string | null | undefined;
  query: string;
  top_k?: number | undefined;
  score_threshold?: number | undefined;
  file_path?: string | null | undefined;
  finding_type?: string | null | undefined;
}

export interface FindingPathsInput {
  project_id?: string | null | undefined;
  file_paths: string[];
}

export interface Operations {
  health: { request: { query?: TenantNames | undefined }; answer: Health };
  retrievePatterns: {
    request: { query?: TenantNames | undefined; body: RetrieveInput & TenantNames };
    answer: Retrieved;
  };
  importPatterns: {
    request: { query?: TenantNames | undefined; body: PatternImportInput & TenantNames };
    answer: PatternsImported;
  };
  listPatterns: {
    request: {
      query?:
        | ({
            /** The project whose e1 patterns are listed; default `default` */
            project_id?: string | null | undefined;
            limit?: number | undefined;
            cursor?: string | null | undefined;
            /** Only patterns of this tier */
            tier?: 'e1' | 'e2' | 'e3' | null | undefined;
            /** Only patterns created at this time or later */
            from?: string | null | undefined;
            /** Only patterns created before this time */
            to?: string | null | undefined;
          } & TenantNames)
        | undefined;
    };
    answer: PatternPage;
  };
  readPattern: {
    request: {
      params: { pattern_id: string };
      query?:
        | ({
            /** The project of the pattern, if its tier is e1; default `default` */
            project_id?: string | null | undefined;
          } & TenantNames)
        | undefined;
    };
    answer: StoredPattern;
  };
  deletePattern: {
    request: {
      params: { pattern_id: string };
      query?:
        | ({
            /** The project of the pattern, if its tier is e1; default `default` */
            project_id?: string | null | undefined;
          } & TenantNames)
        | undefined;
    };
    answer: undefined;
  };
  startRun: {
    request: { query?: TenantNames | undefined; body: RunStartInput & TenantNames };
    answer: RunStarted;
  };
  logStep: {
    request: { params: { id: string }; query?: TenantNames | undefined; body: StepInput & TenantNames };
    answer: ScoreBundle;
  };
  finishRun: {
    request: { params: { id: string }; query?: TenantNames | undefined; body: RunFinishInput & TenantNames };
    answer: RunFinished;
  };
  listRuns: {
    request: {
      query?:
        | ({
            project_id?: string | null | undefined;
            limit?: number | undefined;
            cursor?: string | null | undefined;
            outcome?: string | null | undefined;
            status?: 'running' | 'finished' | null | undefined;
            task_profile?: string | null | undefined;
            agent_name?: string | null | undefined;
            fired?: MonitorName | null | undefined;
            from?: string | null | undefined;
            to?: string | null | undefined;
            /** A query such as `status:failed tool:run_tests cost:>0.5 "date parser" since:7d sort:cost`; words without a field are searched for */
            q?: string | null | undefined;
          } & TenantNames)
        | undefined;
    };
    answer: RunPage;
  };
  listRunValues: {
    request: {
      query?:
        | ({
            project_id?: string | null | undefined;
            /** A field of the query language */
            field:
              | 'status'
              | 'is'
              | 'has'
              | 'kind'
              | 'served'
              | 'session'
              | 'parent'
              | 'agent'
              | 'model'
              | 'provider'
              | 'tool'
              | 'tag'
              | 'key'
              | 'note'
              | 'outcome'
              | 'reason'
              | 'project'
              | 'framework'
              | 'profile'
              | 'codebase'
              | 'experiment'
              | 'arm'
              | 'monitor';
            /** Only values that contain this text, ignoring case */
            contains?: string | null | undefined;
            /** A query such as `status:failed tool:run_tests cost:>0.5 "date parser" since:7d sort:cost`; words without a field are searched for */
            q?: string | null | undefined;
            /** Maximum number of values */
            limit?: number | undefined;
          } & TenantNames)
        | undefined;
    };
    answer: RunValues;
  };
  readRun: { request: { params: { id: string }; query?: TenantNames | undefined }; answer: Run };
  readRunMarks: { request: { params: { id: string }; query?: TenantNames | undefined }; answer: RunMarks };
  markRun: {
    request: {
      params: { id: string };
      query?: TenantNames | undefined;
      body: RunMarkChangeInput & TenantNames;
    };
    answer: RunMarks;
  };
  clearRunMarks: { request: { params: { id: string }; query?: TenantNames | undefined }; answer: undefined };
  listRunSteps: {
    request: {
      params: { id: string };
      query?: ({ limit?: number | undefined; cursor?: string | null | undefined } & TenantNames) | undefined;
    };
    answer: StepPage;
  };
  streamTicket: {
    request: { query?: TenantNames | undefined; body: StreamTicketRequestInput & TenantNames };
    answer: StreamTicket;
  };
  deleteRun: { request: { params: { id: string }; query?: TenantNames | undefined }; answer: undefined };
  evaluate: {
    request: { query?: TenantNames | undefined; body: EvaluateInput & TenantNames };
    answer: Evaluation;
  };
  submitTrace: {
    request: { query?: TenantNames | undefined; body: TraceInput & TenantNames };
    answer: TraceAccepted | TraceQueued;
  };
  listTraces: {
    request: {
      query?:
        | ({
            /** Only traces of this project */
            project_id?: string | null | undefined;
            limit?: number | undefined;
            cursor?: string | null | undefined;
            status?: 'queued' | 'distilling' | 'done' | 'failed' | null | undefined;
            /** Only traces submitted at this time or later */
            from?: string | null | undefined;
            /** Only traces submitted before this time */
            to?: string | null | undefined;
          } & TenantNames)
        | undefined;
    };
    answer: TracePage;
  };
  readTrace: {
    request: { params: { trace_id: string }; query?: TenantNames | undefined };
    answer: TraceState;
  };
  deleteTrace: {
    request: { params: { trace_id: string }; query?: TenantNames | undefined };
    answer: undefined;
  };
  listProfiles: {
    request: {
      query?: ({ limit?: number | undefined; cursor?: string | null | undefined } & TenantNames) | undefined;
    };
    answer: ProfilePage;
  };
  putProfile: {
    request: { query?: TenantNames | undefined; body: NewProfileInput & TenantNames };
    answer: Profile;
  };
  deleteProfile: {
    request: { params: { name: string }; query?: TenantNames | undefined };
    answer: undefined;
  };
  listExperiments: {
    request: {
      query?:
        | ({
            /** Only experiments with runs of this project */
            project_id?: string | null | undefined;
            limit?: number | undefined;
            cursor?: string | null | undefined;
          } & TenantNames)
        | undefined;
    };
    answer: ExperimentPage;
  };
  reportExperiment: {
    request: {
      params: { experiment_id: string };
      query?: ({ expected_on_share?: number | undefined } & TenantNames) | undefined;
    };
    answer: ExperimentReport;
  };
  storeFinding: {
    request: {
      params: { codebase_id: string };
      query?: TenantNames | undefined;
      body: FindingNoteInput & TenantNames;
    };
    answer: FindingStored;
  };
  listCodebases: {
    request: {
      query?:
        | ({
            project_id?: string | null | undefined;
            limit?: number | undefined;
            cursor?: string | null | undefined;
          } & TenantNames)
        | undefined;
    };
    answer: CodebasePage;
  };
  readFinding: {
    request: {
      params: { codebase_id: string; finding_id: string };
      query?: ({ project_id?: string | null | undefined } & TenantNames) | undefined;
    };
    answer: Finding;
  };
  deleteFinding: {
    request: {
      params: { codebase_id: string; finding_id: string };
      query?: ({ project_id?: string | null | undefined } & TenantNames) | undefined;
    };
    answer: undefined;
  };
  listFindings: {
    request: {
      params: { codebase_id: string };
      query?:
        | ({
            project_id?: string | null | undefined;
            limit?: number | undefined;
            offset?: number | undefined;
            /** `next_cursor` of the previous page */
            cursor?: string | null | undefined;
            file_path?: string | null | undefined;
            finding_type?: string | null | undefined;
            /** Only findings that were stored at this time or later */
            from?: string | null | undefined;
            /** Only findings that were stored before this time */
            to?: string | null | undefined;
          } & TenantNames)
        | undefined;
    };
    answer: FindingPage;
  };
  recallFindings: {
    request: {
      params: { codebase_id: string };
      query?: TenantNames | undefined;
      body: FindingRecallInput & TenantNames;
    };
    answer: RecalledFindings;
  };
  invalidateFindings: {
    request: {
      params: { codebase_id: string };
      query?: TenantNames | undefined;
      body: FindingPathsInput & TenantNames;
    };
    answer: FindingsDeleted;
  };
  findingsCoverage: {
    request: {
      params: { codebase_id: string };
      query?: TenantNames | undefined;
      body: FindingPathsInput & TenantNames;
    };
    answer: FindingsCoverage;
  };
  clearFindings: {
    request: {
      params: { codebase_id: string };
      query?: ({ project_id?: string | null | undefined } & TenantNames) | undefined;
    };
    answer: FindingsCleared;
  };
}
