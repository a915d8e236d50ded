/**
 * Descriptions of fields and parameters for the interface description, used if the schema has none. The key
 * is `Schema.field` (`Schema.outer.field` for nested fields, `operation.parameter` for parameters), or else
 * the field's name alone. Data; any thread.
 */

import { MONITOR_DESCRIPTIONS } from '../domain/monitors/names.ts';
import type { HeaderName } from './endpoint.ts';

/** Descriptions by the field's name alone, for every schema. */
const FIELDS: Readonly<Record<string, string>> = {
  ...MONITOR_DESCRIPTIONS,
  account_type: 'Kind of account that the user chose',
  action: 'Name of the called tool, or of the action',
  action_input: 'Input of the call, as text; null: unknown, which differs from empty',
  address: 'IP address of the caller; empty: unknown',
  agent_name: 'Name of the agent, as its program gives it',
  arm: 'Arm of the experiment: `on` with the product’s help, `off` without; empty: no experiment',
  at: 'When the object was stored, RFC 3339 in UTC',
  billing: 'Details from the payment processor',
  cap: 'Interventions that the plan allows in a UTC calendar month; null: no cap',
  capture: 'State of capture in this process; absent without a gateway',
  checks: 'For each part, by name: whether the part answered',
  ci95: '95 % confidence interval, `[low, high]`; null if there are too few runs',
  codebase_id: 'The code base, as the caller names it',
  content: 'The finding in words. Keys and tokens in it are masked, and a long text is cut',
  created_at: 'When the object was made, RFC 3339 in UTC',
  created_by: 'Id of the user who made the object; null after the account of this user was deleted',
  cursor: '`next_cursor` of the previous page; absent: the first page',
  date: 'The day in UTC, `YYYY-MM-DD`',
  days: 'Number of days, including today',
  dead_ends: 'What was tried without success',
  detail: 'What is wrong, in words',
  display_name: 'What the user wants to be called',
  duration_ms: 'Duration in milliseconds',
  email: 'Address; the part behind the @ in lower case',
  error: 'Why the work failed; null: it did not fail',
  expires_at: 'When the object expires, RFC 3339 in UTC',
  experiment_id: 'The experiment; empty: no experiment',
  failure_type: 'The category of failure',
  fields: 'The pattern’s texts',
  file_path: 'The file that the finding is about; empty: no particular file',
  file_paths: 'Paths of files, as the findings contain them',
  finding_id: 'The finding',
  finding_type: 'Kind of the finding, chosen by the caller',
  findings: 'The findings of this page',
  finished_at: 'When the run or the work ended, RFC 3339 in UTC; null until then',
  fired: 'Steps at which each monitor fired',
  framework: 'Framework of the agent',
  id: 'Id of the object',
  injections: 'Interventions: retrievals that returned patterns, and evaluations with `inject: true`',
  invitation_id: 'The invitation',
  is_error: 'Whether the action failed',
  key_count: 'API keys that are not revoked',
  key_id: 'The API key',
  last4: 'The key’s last four characters',
  limit: 'Maximum number of items on a page; less than 1 counts as 1, more than 200 as 200',
  max_total_score: 'The highest `total_score` of the run’s steps',
  member_user_id: 'Id of the member, which is the id of the user',
  metadata: 'Any JSON object from the caller. Keys and tokens in it are masked',
  model: 'The model, as the provider calls it',
  name: 'Name',
  observation: 'Result of the action; null: unknown, which differs from empty',
  offset: 'Number of items to skip; less than 0 counts as 0',
  org_id: 'The organization',
  outcome: 'How the run ended, in the caller’s words; only `success` counts as a success',
  overlap_seconds: 'How long the old key stays valid',
  p_value:
    'Probability of a difference at least this large if the arms were equal; null if there are too few runs',
  pattern_id: 'The pattern',
  patterns: 'The patterns',
  prefix: 'First characters of the key, by which people recognize it',
  profile: 'The signed-in user',
  project_id: 'The project',
  query: 'What is searched for',
  role: 'Role in the organization',
  run_id: 'The run, by the id that the caller chose',
  runs: 'Number of runs',
  score: 'Similarity to the question, 0 to 1',
  situation: 'The situation in which the pattern helps: the task and what went wrong',
  started_at: 'When the run or the exchange began, RFC 3339 in UTC',
  status: 'State of the object',
  step_index: 'Position of the step in its run, from 0 on',
  steps: 'Number of steps',
  subscription: 'The organization’s subscription',
  successes: 'Runs whose outcome is `success`',
  success_rate: 'Share of finished runs with the outcome `success`; null without a finished run',
  svc_version: 'Version of the product that helped the agent',
  task: 'The task in words. Keys and tokens in it are masked',
  task_profile: 'The profile by which the run’s steps are scored',
  thought: 'What the model said before the action',
  thresholds: 'By monitor: the score at which it fires',
  tier: '`e1`: of a project, `e2`: of an organization, `e3`: universal',
  tokens: 'Tokens that the model used',
  total: 'Total number of items',
  trace_id: 'The trace, by the id that the caller chose',
  traces: 'The traces',
  unlock: 'What helped',
  updated_at: 'When the object was last changed, RFC 3339 in UTC',
  url: 'Where to send the user’s browser',
  usage: 'Tokens as the provider reported them',
  user_id: 'The user',
  version: 'Version of the service',
  weights: 'By monitor: its share in `total_score`',
};

const PLACES: Readonly<Record<string, string>> = {
  'ApiKeyCreate.name': 'Name of the key, for people',
  'ApiKeyCreate.org_id': 'The organization of the key; default: the user’s own',
  'ApiKeyCreate.project_id': 'The project to which the key is limited; absent: no project',
  'ApiKeyCreate.mode': 'Part of the key that people can see; both kinds work in the same way',
  'ApiKeyCreated.raw_key': 'The key itself. No other answer contains it',
  'ApiKeyOut.scope': 'Scope of the key: the whole organization or one project',
  'ApiKeyOut.project_id': 'The project to which the key is limited; null: no project',
  'ApiKeyOut.project_name': 'Present name of the project to which the key is limited; null: no project',
  'ApiKeyOut.last_used_at': 'When the key was last used, accurate to a few minutes; null: never',
  'ApiKeyOut.revoked': 'Whether the key is revoked or has expired',
  'AuditEntryOut.actor': 'Id of the user or key that made the change, or name of the program',
  'AuditEntryOut.actor_type': 'What `actor` is',
  'AuditEntryOut.action': 'The action, as `thing.verb`',
  'AuditEntryOut.target': 'The changed object',
  'AuditEntryOut.before': 'Changed fields before the change; null for a new object',
  'AuditEntryOut.after': 'Changed fields after the change; null for a removed object',
  'Bootstrap.organizations': 'Organizations that the user belongs to, newest first',
  'Bootstrap.role': 'Role in the default organization; null for a user without organizations',
  'Bootstrap.invitations': 'Pending invitations to the user’s address',
  'CheckoutSession.session_id': 'Id of the payment processor’s session',
  'CodebasePage.codebases': 'The code bases of this page',
  'Evaluate.task': 'The task in words. Steps are compared with it',
  'Evaluate.model': 'Ignored',
  'Evaluate.steps': 'The steps so far, oldest first',
  'Evaluate.run_id': 'A run with logged steps; replaces `steps`',
  'Evaluate.project_id': 'The project in whose usage the evaluation counts; ignored with a project’s key',
  'EvaluateStep.step_index': 'Position of the step; default: its position in the list',
  'Evaluation.inject': 'Whether the agent should receive `intervention_text` now',
  'Evaluation.intervention_text': 'What to tell the model, word for word; empty unless `inject`',
  'Evaluation.failure_type': 'The monitor to which the text responds; empty unless `inject`',
  'Evaluation.fired': 'Monitors that fired at the last step',
  'ExperimentArm.finished': 'Finished runs, from which the other figures are computed',
  'ExperimentArm.mean_steps': 'Average steps of a finished run; null: no run is finished',
  'ExperimentArm.mean_tokens': 'Average tokens of a finished run; null: no run is finished',
  'ExperimentArm.mean_duration_ms': 'Average milliseconds of a finished run; null: no run is finished',
  'ExperimentPage.experiments': 'The experiments of this page',
  'ExperimentPage.experiments.experiment_id': 'Id of the experiment',
  'ExperimentReport.experiment_id': 'Id of the experiment',
  'ExperimentReport.arms': 'Results of each arm',
  'ExperimentReport.effect': 'Effect of `on` compared with `off`',
  'ExperimentReport.effect.success_rate_diff': 'Success rate of `on` minus that of `off`',
  'ExperimentReport.effect.always_valid_ci95':
    '95 % confidence interval of `success_rate_diff` for sequential testing. It stays valid however often you look at it and whenever you stop',
  'ExperimentReport.srm': 'Sample ratio mismatch: whether the split is the intended one',
  'ExperimentReport.srm.expected_on': 'Share of units that should be `on`',
  'ExperimentReport.srm.observed_on': 'Share of units that are `on`; null without units',
  'ExperimentReport.srm.chi_square': 'Test statistic, one degree of freedom; null without units',
  'ExperimentReport.srm.p_value':
    'Probability of a split at least this far from the intended one, if units are assigned as intended',
  'ExperimentReport.srm.units.on': 'Units that are `on`',
  'ExperimentReport.srm.units.off': 'Units that are `off`',
  'ExperimentReport.by_version': 'Runs and successes by version of the product and by arm',
  'FeedbackCreate.message': 'The user’s feedback. Keys and tokens in it are masked',
  'FeedbackCreate.page': 'Part of the product that the feedback is about',
  'FindingNote.project_id': 'The project of the finding; ignored with a project’s own key',
  'FindingNote.metadata': 'Any JSON object from the caller. Keys and tokens in it are masked',
  'FindingRecall.top_k': 'Maximum number of findings',
  'FindingRecall.score_threshold': 'Minimum similarity of the findings',
  'FindingRecall.file_path': 'Only findings about this file; empty: any',
  'FindingRecall.finding_type': 'Only findings of this kind; empty: any',
  'FindingPaths.project_id': 'Only findings of this project; ignored with a project’s own key',
  'FindingRecall.project_id': 'Only findings of this project; ignored with a project’s own key',
  'FindingsCleared.cleared': 'Always true',
  'FindingsCoverage.coverage': 'Share of the paths that have a finding, 0 to 1',
  'FindingsDeleted.deleted': 'Number of deleted findings',
  'Health.status': 'Always `ok`',
  'HTTPValidationError.detail': 'All errors in the request',
  'InterventionUsage.used': 'Interventions of this month so far',
  'InterventionUsage.remaining': 'Remaining interventions of this month; null: no cap',
  'InterventionUsage.period_start': 'First moment of the month, RFC 3339 in UTC',
  'InterventionUsage.period_end': 'First moment of the next month, RFC 3339 in UTC',
  'InterventionUsage.series': 'By day; absent unless `days` is above 0',
  'InvitationOut.invited_by': 'Id of the inviting user',
  'InvitationOut.role': 'Role that the invited person will have',
  'InviteRequest.role': 'Role that the invited person will have',
  'NewPattern.model': 'The model that learned the pattern; empty: any',
  'NewProfile.weights': 'By monitor: its weight in `total_score`; default 0',
  'NewProfile.thresholds': 'By monitor: the score at which it fires; default: the built-in thresholds',
  'OrgMemberOut.joined_at': 'When the user became a member, RFC 3339 in UTC',
  'Pattern.similarity': 'Similarity to the context of the request, 0 to 1',
  'PatternsImported.created': 'Number of new patterns',
  'PatternsImported.merged': 'Number of patterns that raised the support of an existing one',
  'PatternsImported.patterns': 'Outcome of each pattern, in the order of the request',
  'PatternsImported.patterns.created':
    'Whether the pattern is new; otherwise it was merged into `pattern_id`',
  'ProfilePage.profiles': 'The profiles of this page',
  'ProfilePage.profiles.is_built_in': 'Whether the profile is built in',
  'ProjectDeleted.deleted': 'Always true',
  'ProjectDeleted.keys_revoked': 'Number of API keys that were revoked with the project',
  'Ready.status': 'Always `ready`; a service that is not ready answers 503',
  'Removed.removed': 'Always true',
  'Retrieve.top_k': 'Maximum number of patterns',
  'Retrieved.traces': 'The patterns, best first',
  'Run.agent_name': 'Name of the agent; empty: not given',
  'RunFinish.outcome': 'How the run ended; in experiments, only `success` counts as a success',
  'RunPage.runs': 'The runs of this page',
  'RunStart.project_id': 'The project of the run; ignored with a project’s own key',
  'RunStart.run_id': 'Id of the run, chosen by the caller; unique in its organization',
  'RunStart.task': 'The task in words. Steps are compared with it. Keys and tokens in it are masked',
  'RunStart.assignment_unit':
    'The unit that was assigned to the arm, such as a user or a repository; empty: the run itself',
  'StepPage.steps': 'The steps of this page',
  'StepRecord.action':
    'Name of the tool. Long names are cut, like the other texts; keys and tokens are masked',
  'StepRecord.intervention.failure_type': 'The monitor to which the intervention responds',
  'StepRecord.intervention.level': '`nudge`: change course; `stop`: the nudge did not help',
  'StepRecord.intervention.text': 'Text for the model, word for word',
  'Subscription.plan': 'Name of the plan; `free` without a subscription',
  'Subscription.current_period_start': 'When the paid period began; null: there is no paid period',
  'Subscription.current_period_end': 'When the paid period ends; null: there is no paid period',
  'Subscription.cancel_at_period_end': 'Whether the subscription ends with the paid period',
  'Subscription.intervention_cap': 'Interventions that the plan allows in a UTC calendar month; null: no cap',
  'Trace.project_id': 'The project that learns from the trace; ignored with a project’s own key',
  'Trace.steps': 'The steps of a legacy trace, oldest first',
  'Trace.calls': 'The model’s calls of a v2 trace as they went over the wire, oldest first',
  'Trace.manifest': 'Description of a v2 trace',
  'TraceAccepted.patterns_created': 'Number of new patterns; merged ones do not count',
  'TraceCallRecord.seq': 'Position of the call; default: its position in the list',
  'TraceCallRecord.request': 'Body of the request: Messages or chat-completions style',
  'TraceCallRecord.response': 'Body of the answer',
  'TraceCallRecord.is_error': 'Whether the call failed',
  'TraceCallRecord.usage': 'Ignored',
  'TraceCallRecord.duration_ms': 'Ignored',
  'TraceState.submitted_at': 'When the trace was submitted, RFC 3339 in UTC',
  'TraceStep.tokens_used': 'Tokens that the model used',
  'Usage.from': 'First day',
  'Usage.to': 'Last day, which is today',
  'Usage.series': 'Counts by day, oldest first',
  ...Object.fromEntries(
    ['Usage.series', 'Usage.totals'].flatMap((at) => [
      [`${at}.traces`, 'Submitted traces'],
      [`${at}.retrievals`, 'Retrievals, with or without results'],
      [`${at}.evaluations`, 'Evaluations, with or without interventions'],
    ]),
  ),
  'StreamTicket.ticket': 'Value for the query of the stream; valid once, for a minute',
  'Usage.totals': 'Sums over all days',
  'UsageStats.key_count': 'API keys of the organization that are not revoked',
  'UsageStats.member_count': 'Members of the organization',
  'UsageStats.injections': 'Interventions so far',
  'UsageStats.injections.total': 'Sum of `retrieve` and `evaluate`',
  'UsageStats.injections.retrieve': 'Retrievals that returned patterns',
  'UsageStats.injections.evaluate': 'Evaluations with `inject: true`',
  'UserOut.onboarded': 'Whether the user has finished the introduction',
  'UserPatch.onboarded': 'Whether the user has finished the introduction',
  'ValidationError.loc': 'Location of the error; begins with `body`, `query` or `path`',
  'ValidationError.msg': 'What is wrong, in words',
  'ValidationError.type': 'Code of the error, for programs',
  'ValidationError.input': 'The invalid value; never a secret',
  'ValidationError.ctx': 'Bounds and other values in the message',
  'WebhookReceived.received': 'Always true',
  'WebhookReceived.handled':
    'Whether the event concerns an organization of the service and is of a kind that the service handles',
  'WebhookReceived.duplicate':
    'Whether this event was received before; a repeated event has no further effect',
  'create_checkout_session.lookup_key': 'Lookup key of the payment processor’s price',
  'list_api_keys.project_id': 'Only keys of this project',
  'list_findings.file_path': 'Only findings about this file; empty: any',
  'list_findings.finding_type': 'Only findings of this kind; empty: any',
  'exportRuns.from': 'Only runs that began at this moment or later',
  'exportRuns.to': 'Only runs that began before this moment',
  'listRuns.agent_name': 'Only runs of this agent',
  'listRuns.fired': 'Only runs in which this monitor fired at least once',
  'listRuns.from': 'Only runs that began at this moment or later',
  'listRuns.outcome': 'Only runs with exactly this outcome',
  'listRuns.status': 'Only runs in this state',
  'listRuns.task_profile': 'Only runs under this profile',
  'listRuns.to': 'Only runs that began before this moment',
  'listTraces.status': 'Only traces in this state',
  'live_stream.last_event_id':
    'Replaces the header `Last-Event-ID`, which takes precedence, for readers that cannot set it',
  'live_stream.project_id': 'Only events of this project',
  'logStep.id': 'The run, by its `run_id`',
  'finishRun.id': 'The run, by its `run_id`',
  'readRun.id': 'The run, by its `run_id`',
  'listRunSteps.id': 'The run, by its `run_id`',
  'reportExperiment.experiment_id': 'Id of the experiment',
  'reportExperiment.expected_on_share': 'Share of units that should be `on`',
  'intervention_usage.days': 'Number of days to list individually; 0: none',
};

/** Descriptions of schemas, by name. */
const SCHEMAS: Readonly<Record<string, string>> = {
  Error: 'Body of every error',
  HTTPValidationError: 'Answer to a request that violates the schema',
};

/** Descriptions of response headers. */
export const HEADER_WORDS: Readonly<
  Record<HeaderName, { words: string; type: 'string' | 'integer'; always: boolean }>
> = {
  'x-request-id': {
    words: 'Id of the request in the service’s log: the request’s `X-Request-Id`, or a generated id',
    type: 'string',
    always: true,
  },
  ratelimit: {
    words:
      'Remaining requests: `"default";r=<requests>;t=<seconds until all are available again>` (draft-ietf-httpapi-ratelimit-headers)',
    type: 'string',
    always: true,
  },
  'ratelimit-policy': {
    words: 'Allowed requests: `"default";q=<requests at once>;w=<seconds until all are available again>`',
    type: 'string',
    always: true,
  },
  'retry-after': { words: 'Seconds to wait before the next attempt', type: 'integer', always: false },
  'x-total-count': { words: 'Total number of items on all pages', type: 'integer', always: true },
  'x-svc-warning': {
    words: 'Fields of the request that this endpoint does not know and ignored',
    type: 'string',
    always: false,
  },
  'x-svc-not-indexed': {
    words: 'Stored exchanges that are not indexed yet, and therefore missing in the file',
    type: 'integer',
    always: false,
  },
  'x-svc-retrieval': {
    words: '`capped`: patterns were found but not returned, because the month’s interventions are used up',
    type: 'string',
    always: false,
  },
};

/** Descriptions of operations for which one line is not enough. */
const OPERATIONS: Readonly<Record<string, string>> = {
  startRun:
    'Call it before the first step. A repeated start gets the same answer, so repeat it if the answer was lost. A different start with the same `run_id` gets 409.',
  logStep:
    'Call it after each step of the agent. Steps may come late and in any order. A repeated `step_index` gets the same answer, whatever the rest of the body contains. If `alarm` is true, call `POST /v1/monitors/evaluate` with the `run_id`.',
  evaluate:
    'With `run_id` it evaluates the logged run; with `steps` it evaluates the given steps and stores nothing. `inject` is true at the step at which an intervention begins, and when it escalates from `nudge` to `stop`. A repeated request gets the same text and counts once in the usage.',
  retrieve_patterns:
    'Call it before a task and add the result to the agent’s prompt. It counts as an intervention if it returns patterns. Over the cap of the plan it returns no patterns, and says so in `x-svc-retrieval`.',
  submitTrace:
    'Two forms. With `trace_id`, `outcome` and `steps`, patterns are made before the answer (200). With `manifest` and `calls`, which are the run’s model calls as sent over the wire, the trace is queued and patterns are made in the background (202). `GET /v1/traces/{trace_id}` shows the result.',
  live_stream:
    'Server-sent events. Each has an `id` that increases within the organization, a name, and data as JSON on one line (the schemas Live… below). To continue after a disconnect, send the header `Last-Event-ID`. If events after it are no longer stored, the stream begins with an event `reset`, whose data is `{}`. A comment every 15 s keeps the connection open. A browser’s `EventSource` cannot send `Authorization`; request a ticket first.',
  otel_export_traces:
    'For `OTEL_EXPORTER_OTLP_ENDPOINT=…/otel` with `OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer KEY`. A span belongs to the run of the session or conversation that it names, or otherwise to the run of its trace. A repeated span counts once, and so does a tool call that arrives both as a span and as an event.',
  otel_export_metrics:
    'For agents that send metrics, too, to `OTEL_EXPORTER_OTLP_ENDPOINT`. Without this route, they would log an error every minute. Set `OTEL_METRICS_EXPORTER=none` to stop sending them.',
  otel_export_logs: 'Like `otel_export_traces`, but for the events that coding agents send as log records.',
  billing_webhook:
    'For the payment processor. The raw body is signed: header `Stripe-Signature: t=<seconds since 1970>,v1=<hex>`, where `v1` is HMAC-SHA256 over `<t>.<body>` with the endpoint’s secret (`STRIPE_WEBHOOK_SECRET`). An invalid signature, or one older than five minutes, gets 400, and the body is not read. A repeated event counts once.',
  billing_webhook_thin:
    'Like `billing_webhook`, but for thin events, which name their object without containing it. They are signed in the same way with another secret. The object is fetched from the processor once, however many copies of the event arrive.',
};

/** Descriptions of the groups of operations. */
export const TAG_WORDS: Readonly<Record<string, string>> = {
  service: 'Liveness, readiness and metrics',
  runs: 'Runs of agents, scored step by step, and interventions for an agent that is stuck',
  traces: 'Completed runs, from which patterns are learned',
  patterns: 'Patterns that helped before: retrieved before a task, imported, read back',
  experiments: 'Comparison of runs with and without the product’s help',
  findings: 'Findings of agents about a code base',
  monitor: 'Events as they happen',
  account: 'The signed-in user',
  organizations: 'Organizations, their members, invitations and audit log',
  projects: 'Projects of an organization',
  keys: 'API keys',
  usage: 'Counts of requests, steps and interventions',
  billing: 'Plan, checkout, and the payment processor’s events',
  searches: 'Searches that users saved for themselves',
  feedback: 'Messages to the operator',
  telemetry: 'Telemetry from agents over OpenTelemetry’s protocol',
};

/**
 * Finds the description of a field or parameter.
 * @param place names from the outermost to the innermost: the schema or operation first
 * @returns undefined without a description
 */
export function wordsFor(place: readonly string[]): string | undefined {
  const path = place.join('.');
  if (Object.hasOwn(PLACES, path)) return PLACES[path];
  const name = place.at(-1)!;
  return Object.hasOwn(FIELDS, name) ? FIELDS[name] : undefined;
}

/** Finds the description of an operation; undefined if its summary is enough. */
export function wordsForOperation(id: string): string | undefined {
  return Object.hasOwn(OPERATIONS, id) ? OPERATIONS[id] : undefined;
}

/** Finds the description of a schema; undefined: it has none. */
export function wordsForSchema(id: string): string | undefined {
  return Object.hasOwn(SCHEMAS, id) ? SCHEMAS[id] : undefined;
}
