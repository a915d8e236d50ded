/**
 * What the interface description says of fields and parameters, where a schema says nothing itself. Found by `Schema.field`
 * (`Schema.outer.field` further in, `operation.parameter` for a parameter), else by the field's name alone. Data; any thread.
 */

import type { HeaderName } from './endpoint.ts';

const MONITOR_WORDS = {
  verification_skip: 'Changes that nothing was done to check, and a success that is claimed all the same',
  claim_contradiction: 'What the agent says is not what it was shown',
  cyclic_compression: 'The same sequence of actions comes round again',
  semantic_loop: 'Different words for the same attempt, again and again',
  silent_topic_drift: 'The agent works on something that is not its task',
  infinite_loop: 'The same action with the same input, again and again',
};

/** By the field's name, wherever it stands. */
const FIELDS: Readonly<Record<string, string>> = {
  ...MONITOR_WORDS,
  account_type: 'What the user said to be',
  action: 'Name of the tool that was called, or of what was done',
  action_input: 'What it was called with, as text',
  address: 'IP address that the change came from; empty where there was none',
  agent_name: 'Name of the agent, as its program gives it',
  arm: 'Arm of the experiment: `on` with the product’s help, `off` without; empty: of none',
  at: 'When it was stored, RFC 3339 in UTC',
  billing: 'What the payment processor has of it',
  cap: 'Interventions that the plan allows in a UTC calendar month; null: no cap',
  capture: 'How the gateway of this process captures; absent without one',
  checks: 'What was asked, by name, and whether it answered',
  ci95: 'Interval in which the true value lies with 95 % confidence: `[low, high]`; null where there are too few runs',
  codebase_id: 'The code base, as the caller names it',
  content: 'The finding in words. Keys and tokens in it are masked, and what is too long is cut',
  created_at: 'When it was made, RFC 3339 in UTC',
  created_by: 'Id of the user who made it; null once that account is gone',
  cursor: '`next_cursor` of the page before; left out: from the beginning',
  date: 'The day in UTC, `YYYY-MM-DD`',
  days: 'How many days, the present one included',
  dead_ends: 'What was tried and did not help',
  detail: 'What is wrong, in words',
  display_name: 'What the user wants to be called',
  duration_ms: 'Milliseconds',
  email: 'Address; the part behind the @ in lower case',
  error: 'Why it failed; null otherwise',
  expires_at: 'When it ends by itself, RFC 3339 in UTC',
  experiment_id: 'The experiment; empty: none',
  failure_type: 'The category of failure',
  fields: 'The pattern’s texts',
  file_path: 'The file it is about; empty: none in particular',
  file_paths: 'Paths of files, as they were given with the findings',
  finding_id: 'The finding',
  finding_type: 'A word for its kind, of the caller’s choice',
  findings: 'The findings of this page',
  finished_at: 'When it was over, RFC 3339 in UTC; null until then',
  fired: 'Steps at which each monitor fired',
  framework: 'What the agent is built with',
  id: 'Its id',
  injections: 'Interventions: retrievals that gave patterns, and evaluations that said `inject: true`',
  invitation_id: 'The invitation',
  is_error: 'Whether the action failed',
  key_count: 'API keys that are not revoked',
  key_id: 'The API key',
  last4: 'The key’s last four characters',
  limit: 'Items of a page at most',
  max_total_score: 'The highest `total_score` of its steps',
  member_user_id: 'The member, by the id of the user',
  metadata: 'Any JSON object of the caller’s. Keys and tokens in it are masked',
  model: 'The model, as the provider calls it',
  name: 'What it is called',
  observation: 'What came back of the action',
  offset: 'Items to pass over',
  org_id: 'The organization',
  outcome: 'How it ended, in the caller’s words: `success` counts as one, anything else does not',
  overlap_seconds: 'How long the old key goes on to be valid',
  p_value: 'Chance of a difference at least as large if there were none; null where there are too few runs',
  pattern_id: 'The pattern',
  patterns: 'The patterns',
  prefix: 'The key’s first characters, by which people know it',
  profile: 'The signed-in user',
  project_id: 'The project',
  query: 'What is searched for',
  role: 'Role in the organization',
  run_id: 'The run, as the caller names it',
  runs: 'Number of runs',
  score: 'Similarity to the question, 0 to 1',
  situation: 'When it fits: the task and what went wrong',
  started_at: 'When it began, RFC 3339 in UTC',
  status: 'Its state',
  step_index: 'Place of the step in its run, from 0 on',
  steps: 'Number of steps',
  subscription: 'The organization’s subscription',
  successes: 'Runs whose outcome is `success`',
  success_rate: 'Share of finished runs with the outcome `success`; null without one',
  svc_version: 'Version of what the agent was helped by',
  task: 'The task in words. Keys and tokens in it are masked',
  task_profile: 'The profile by which its steps are scored',
  thought: 'What the model said before the action',
  thresholds: 'By monitor: the score from which on it fires',
  tier: '`e1`: of a project, `e2`: of an organization, `e3`: universal',
  tokens: 'Tokens that the model used',
  total: 'How many there are in all',
  trace_id: 'The trace, as the caller names it',
  traces: 'The traces',
  unlock: 'What helped',
  updated_at: 'When it was last changed, RFC 3339 in UTC',
  url: 'Where to send the user’s browser',
  usage: 'What the provider said of tokens',
  user_id: 'The user',
  version: 'The version that answers',
  weights: 'By monitor: its share in `total_score`',
};

const PLACES: Readonly<Record<string, string>> = {
  'ApiKeyCreate.name': 'What the key is called, for people',
  'ApiKeyCreate.org_id': 'The organization of the key; left out: the user’s own',
  'ApiKeyCreate.project_id': 'The project that the key is held to; left out: none',
  'ApiKeyCreate.mode': 'Stands in the key for people to see; both do the same',
  'ApiKeyCreated.raw_key': 'The key itself. No other answer ever holds it',
  'ApiKeyOut.scope': 'What the key reaches: the whole organization or one project',
  'ApiKeyOut.project_id': 'The project that the key is held to; null: none',
  'ApiKeyOut.project_name': 'What that project is called now',
  'ApiKeyOut.last_used_at': 'When it was last used, a few minutes coarse; null: never',
  'ApiKeyOut.revoked': 'Whether it has ended',
  'AuditEntryOut.actor': 'Id of the user or the key, or the name of the program, that did it',
  'AuditEntryOut.actor_type': 'What `actor` is',
  'AuditEntryOut.action': 'What was done, as `thing.verb`',
  'AuditEntryOut.target': 'What it was done to',
  'AuditEntryOut.before': 'What changed, as it was; null for what was made',
  'AuditEntryOut.after': 'What changed, as it is; null for what was removed',
  'Bootstrap.organizations': 'Organizations that the user belongs to, newest first',
  'Bootstrap.role': 'Role in the default organization; null for somebody who belongs to none',
  'Bootstrap.invitations': 'Pending invitations to the user’s address',
  'CheckoutSession.session_id': 'Id of the session at the payment processor',
  'CodebasePage.codebases': 'The code bases of this page',
  'Evaluate.task': 'The task in words: what drift is measured against',
  'Evaluate.model': 'Not looked at',
  'Evaluate.steps': 'The steps so far, oldest first',
  'Evaluate.run_id': 'A run whose steps have been logged, instead of `steps`',
  'Evaluate.project_id': 'Whose usage it counts in; ignored with a project’s own key',
  'EvaluateStep.step_index': 'Place of the step; left out: its place in the list',
  'Evaluation.inject': 'Whether the agent should be told `intervention_text` now',
  'Evaluation.intervention_text': 'What to tell the model, word for word; empty unless `inject`',
  'Evaluation.failure_type': 'The monitor that the text answers; empty unless `inject`',
  'Evaluation.fired': 'Monitors that fired at the last step',
  'ExperimentArm.finished': 'Runs that are finished; the other figures are of these',
  'ExperimentArm.mean_steps': 'Steps of a finished run on average; null without one',
  'ExperimentArm.mean_tokens': 'Tokens of a finished run on average; null without one',
  'ExperimentArm.mean_duration_ms': 'Milliseconds of a finished run on average; null without one',
  'ExperimentPage.experiments': 'The experiments of this page',
  'ExperimentReport.arms': 'What the runs of each arm came to',
  'ExperimentReport.effect': 'What `on` brings, compared with `off`',
  'ExperimentReport.effect.success_rate_diff': 'Success rate of `on` less that of `off`',
  'ExperimentReport.effect.always_valid_ci95':
    'The same interval where one may look at it as often as one likes and stop when one likes',
  'ExperimentReport.srm': 'Sample ratio mismatch: whether the split is the one that was meant',
  'ExperimentReport.srm.expected_on': 'Share of units that should be `on`',
  'ExperimentReport.srm.observed_on': 'Share of units that are `on`; null without any',
  'ExperimentReport.srm.chi_square': 'Test statistic, one degree of freedom; null without units',
  'ExperimentReport.srm.p_value': 'Chance of a split at least as far off if the share is as meant',
  'ExperimentReport.srm.units.on': 'Units that are `on`',
  'ExperimentReport.srm.units.off': 'Units that are `off`',
  'ExperimentReport.by_version': 'The same by version of the product',
  'FeedbackCreate.message': 'What the user says. Keys and tokens in it are masked',
  'FeedbackCreate.page': 'Where in the product it was said',
  'FindingNote.project_id': 'The project of the finding; ignored with a project’s own key',
  'FindingNote.metadata': 'Any JSON object of the caller’s. Keys and tokens in it are masked',
  'FindingRecall.top_k': 'Findings at most',
  'FindingRecall.score_threshold': 'Findings that are less similar are left out',
  'FindingRecall.file_path': 'Only findings about this file; empty: any',
  'FindingRecall.finding_type': 'Only findings of this kind; empty: any',
  'FindingPaths.project_id': 'Only findings of this project; ignored with a project’s own key',
  'FindingRecall.project_id': 'Only findings of this project; ignored with a project’s own key',
  'FindingsCleared.cleared': 'Always true',
  'FindingsCoverage.coverage': 'Share of the paths about which there is a finding, 0 to 1',
  'FindingsDeleted.deleted': 'How many were deleted',
  'Health.status': 'Always `ok`',
  'HTTPValidationError.detail': 'Everything that is wrong with the request',
  'InterventionUsage.used': 'Interventions of this month so far',
  'InterventionUsage.remaining': 'Interventions that are left in this month; null: no cap',
  'InterventionUsage.period_start': 'First moment of the month, RFC 3339 in UTC',
  'InterventionUsage.period_end': 'First moment of the next month, RFC 3339 in UTC',
  'InterventionUsage.series': 'By day; absent unless `days` is above 0',
  'InvitationOut.invited_by': 'Id of the user who invited',
  'InvitationOut.role': 'Role that the invited person will have',
  'InviteRequest.role': 'Role that the invited person will have',
  'NewPattern.model': 'The model that learned it; empty: any',
  'NewProfile.weights': 'By monitor: its share in `total_score`; left out: 0',
  'NewProfile.thresholds': 'By monitor: the score from which on it fires; left out: the built-in ones',
  'OrgMemberOut.joined_at': 'When the user became a member, RFC 3339 in UTC',
  'Pattern.similarity': 'To the context that was asked for, 0 to 1',
  'PatternsImported.created': 'Patterns that are new',
  'PatternsImported.merged': 'Patterns that raised the support of one that was there',
  'PatternsImported.patterns': 'What became of each, in their order',
  'PatternsImported.patterns.created':
    'Whether it is new; otherwise `pattern_id` is the one that it was merged into',
  'ProfilePage.profiles': 'The profiles of this page',
  'ProfilePage.profiles.is_built_in': 'Whether it is one of the product’s own',
  'ProjectDeleted.deleted': 'Always true',
  'ProjectDeleted.keys_revoked': 'API keys of the project that ended with it',
  'Ready.status': 'Always `ready`; otherwise the answer is 503',
  'Removed.removed': 'Always true',
  'Retrieve.top_k': 'Patterns at most',
  'Retrieved.traces': 'The patterns, best first',
  'Run.agent_name': 'Name of the agent; empty: it gave none',
  'RunFinish.outcome': 'How the run ended: `success` counts as one in experiments, anything else does not',
  'RunPage.runs': 'The runs of this page',
  'RunStart.project_id': 'The project of the run; ignored with a project’s own key',
  'RunStart.run_id': 'Names the run in its organization, at the caller’s choice',
  'RunStart.task': 'The task in words: what drift is measured against. Keys and tokens in it are masked',
  'RunStart.assignment_unit': 'What was assigned to the arm: a user, a repository; empty: the run itself',
  'StepPage.steps': 'The steps of this page',
  'StepRecord.action':
    'Name of the tool. Cut where it was long, as the other texts are; keys and tokens are masked',
  'StepRecord.intervention.failure_type': 'The monitor that it answers',
  'StepRecord.intervention.level': '`nudge`: change course; `stop`: the nudge did not help',
  'StepRecord.intervention.text': 'What the model was to be told, word for word',
  'Subscription.plan': 'Name of the plan; `free` without a subscription',
  'Subscription.current_period_start': 'When the paid period began; null without one',
  'Subscription.current_period_end': 'When the paid period ends; null without one',
  'Subscription.cancel_at_period_end': 'Whether it ends with the period',
  'Subscription.intervention_cap': 'Interventions that the plan allows in a UTC calendar month; null: no cap',
  'Trace.project_id': 'The project that learns from it; ignored with a project’s own key',
  'Trace.steps': 'The steps, oldest first: a legacy trace',
  'Trace.calls': 'The model’s calls as they went over the wire, oldest first: a v2 trace',
  'Trace.manifest': 'What a v2 trace is about',
  'TraceAccepted.patterns_created': 'New patterns; those that were merged do not count',
  'TraceCallRecord.seq': 'Place of the call; left out: its place in the list',
  'TraceCallRecord.request': 'Body of the request: Messages or chat-completions style',
  'TraceCallRecord.response': 'Body of the answer',
  'TraceCallRecord.is_error': 'Whether the call failed',
  'TraceCallRecord.usage': 'Not looked at',
  'TraceCallRecord.duration_ms': 'Not looked at',
  'TraceState.submitted_at': 'When it was submitted, RFC 3339 in UTC',
  'TraceStep.tokens_used': 'Tokens that the model used',
  'Usage.from': 'First day',
  'Usage.to': 'Last day, the present one',
  'Usage.series': 'By day, oldest first',
  ...Object.fromEntries(
    ['Usage.series', 'Usage.totals'].flatMap((at) => [
      [`${at}.traces`, 'Traces that were submitted'],
      [`${at}.retrievals`, 'Retrievals, whether or not they gave something'],
      [`${at}.evaluations`, 'Evaluations, whatever they said'],
    ]),
  ),
  'StreamTicket.ticket': 'Goes into the query of the stream; good once, for a minute',
  'Usage.totals': 'All days together',
  'UsageStats.key_count': 'API keys of the organization that are not revoked',
  'UsageStats.member_count': 'Members of the organization',
  'UsageStats.injections': 'Interventions ever',
  'UsageStats.injections.total': 'Both kinds together',
  'UsageStats.injections.retrieve': 'Retrievals that gave patterns',
  'UsageStats.injections.evaluate': 'Evaluations that said `inject: true`',
  'UserOut.onboarded': 'Whether the user has been shown around',
  'UserPatch.onboarded': 'Whether the user has been shown around',
  'ValidationError.loc': 'Where: begins with `body`, `query` or `path`',
  'ValidationError.msg': 'What is wrong, in words',
  'ValidationError.type': 'A word for what is wrong, for programs',
  'ValidationError.input': 'The value that is wrong; never a secret',
  'ValidationError.ctx': 'Bounds and the like that the message speaks of',
  'WebhookReceived.received': 'Always true',
  'WebhookReceived.handled': 'Whether the event is of a kind that changes something here',
  'WebhookReceived.duplicate': 'Whether it had come before; it counts once',
  'create_checkout_session.lookup_key': 'Lookup key of the price at the payment processor',
  'list_api_keys.project_id': 'Only keys of this project',
  'list_findings.file_path': 'Only findings about this file; empty: any',
  'list_findings.finding_type': 'Only findings of this kind; empty: any',
  'listRuns.agent_name': 'Only runs of this agent',
  'listRuns.fired': 'Only runs at which this monitor fired at least once',
  'listRuns.from': 'Only runs that began at this moment or later',
  'listRuns.outcome': 'Only runs with exactly this outcome',
  'listRuns.status': 'Only runs in this state',
  'listRuns.task_profile': 'Only runs under this profile',
  'listRuns.to': 'Only runs that began before this moment',
  'listTraces.status': 'Only traces in this state',
  'live_stream.last_event_id':
    'As the header `Last-Event-ID`, which goes first: for readers that cannot set it',
  'live_stream.project_id': 'Only events of this project',
  'logStep.id': 'The run, by its `run_id`',
  'finishRun.id': 'The run, by its `run_id`',
  'readRun.id': 'The run, by its `run_id`',
  'listRunSteps.id': 'The run, by its `run_id`',
  'reportExperiment.expected_on_share': 'Share of units that should be `on`',
  'intervention_usage.days': 'Days to tell of one by one; 0: none',
};

/** Of a schema by its name. */
const SCHEMAS: Readonly<Record<string, string>> = {
  Error: 'What every refusal says',
  HTTPValidationError: 'What a request that is not what the schema says is answered',
};

/** Of headers of answers. */
export const HEADER_WORDS: Readonly<
  Record<HeaderName, { words: string; type: 'string' | 'integer'; always: boolean }>
> = {
  'x-request-id': {
    words: 'Names the request in the service’s log: what the request said in `X-Request-Id`, or made for it',
    type: 'string',
    always: true,
  },
  ratelimit: {
    words:
      'What is left: `"default";r=<requests>;t=<seconds until more>`, after draft-ietf-httpapi-ratelimit-headers',
    type: 'string',
    always: true,
  },
  'ratelimit-policy': {
    words: 'What is allowed: `"default";q=<requests at once>;w=<seconds in which they come back>`',
    type: 'string',
    always: true,
  },
  'retry-after': { words: 'Seconds after which to try again', type: 'integer', always: false },
  'x-total-count': { words: 'How many items there are on all pages together', type: 'integer', always: true },
  'x-svc-warning': {
    words: 'Names fields of the request that this endpoint does not know; they were not looked at',
    type: 'string',
    always: false,
  },
  'x-svc-retrieval': {
    words: '`capped`: patterns were found and none is given, for the month’s interventions are used up',
    type: 'string',
    always: false,
  },
};

/** Of operations, where one line does not say enough. */
const OPERATIONS: Readonly<Record<string, string>> = {
  startRun:
    'Call it before the first step. The same start again answers as before, so that a lost answer is no reason to stop; another start under the same `run_id` is a 409.',
  logStep:
    'Call it after each step of the agent. Steps may come late and in any order. A `step_index` that came before answers as before, whatever the rest of the body says. When `alarm` is true, ask `POST /v1/monitors/evaluate` with the `run_id`.',
  evaluate:
    'With `run_id` it looks at the logged run; with `steps` it looks at what it is sent and keeps nothing. `inject` is true at the first step of a streak and where the streak gets worse. The same question again gives the same text and counts once in the usage.',
  retrieve_patterns:
    'Call it before a task and put what comes into the agent’s prompt. Counted as an intervention when it gives something. Over the cap of the plan it gives nothing, and says so in `x-svc-retrieval`.',
  submitTrace:
    'Two shapes. `trace_id`, `outcome` and `steps`: distilled before it is answered (200). `manifest` and `calls`, a run’s model calls as they went over the wire: queued, and distilled in the background (202). Read what came of it under `GET /v1/traces/{trace_id}`.',
  live_stream:
    'Server-sent events. Each has an `id` that grows within the organization, a name, and its data as JSON on one line: the schemas Live… below. Connect again with the header `Last-Event-ID` to go on; what is no longer remembered begins with an event `reset`, whose data is `{}`. A comment every 15 s keeps the connection open. A browser’s `EventSource` cannot send `Authorization`: ask for a ticket first.',
  otel_export_traces:
    'For `OTEL_EXPORTER_OTLP_ENDPOINT=…/otel` with `OTEL_EXPORTER_OTLP_HEADERS=Authorization=Bearer KEY`. The run is that of the session or conversation that a span names, else of its trace. The same span again, or the same tool call as a span and as an event, counts once.',
  otel_export_metrics:
    'For agents that send metrics to the same `OTEL_EXPORTER_OTLP_ENDPOINT`: an error here would be in their logs every minute. `OTEL_METRICS_EXPORTER=none` saves the sending.',
  otel_export_logs: 'As `otel_export_traces`, for the events that coding agents send as log records.',
  billing_webhook:
    'For the payment processor. The raw body is signed: header `Stripe-Signature: t=<seconds since 1970>,v1=<hex>`, where `v1` is HMAC-SHA256 over `<t>.<body>` with the endpoint’s secret (`STRIPE_WEBHOOK_SECRET`). A signature that does not hold, or is older than five minutes, is a 400, and nothing of the body is looked at. An event that comes again counts once.',
  billing_webhook_thin:
    'As `billing_webhook`, for thin events, which name their object and do not hold it; signed in the same way, with a secret of their own. The object is fetched from the processor once, however many copies of the event come.',
};

/** Of the groups of operations. */
export const TAG_WORDS: Readonly<Record<string, string>> = {
  service: 'Whether it lives, and what to watch',
  runs: 'Runs of agents, scored step by step, and what to tell an agent that is stuck',
  traces: 'Completed runs, from which patterns are learned',
  patterns: 'What helped before: found before a task, imported, read back',
  experiments: 'Whether runs with the product’s help fare better than those without',
  findings: 'What agents found out about a code base',
  monitor: 'What happens now, as it happens',
  account: 'The signed-in user',
  organizations: 'Organizations, their members, invitations and audit log',
  projects: 'Projects of an organization',
  keys: 'API keys',
  usage: 'What was counted',
  billing: 'Plan, checkout, and the payment processor’s events',
  feedback: 'Words to the operator',
  telemetry: 'What agents send over OpenTelemetry’s protocol',
};

/**
 * @param place names from the schema or the operation inwards
 * @returns undefined where nothing is said
 */
export function wordsFor(place: readonly string[]): string | undefined {
  const path = place.join('.');
  if (Object.hasOwn(PLACES, path)) return PLACES[path];
  const name = place.at(-1)!;
  return Object.hasOwn(FIELDS, name) ? FIELDS[name] : undefined;
}

/** @returns undefined where one line says enough */
export function wordsForOperation(id: string): string | undefined {
  return Object.hasOwn(OPERATIONS, id) ? OPERATIONS[id] : undefined;
}

/** @returns undefined where nothing is said */
export function wordsForSchema(id: string): string | undefined {
  return Object.hasOwn(SCHEMAS, id) ? SCHEMAS[id] : undefined;
}
