/** What the gateway captured, for who runs the service (decisions, Captures). Data; any thread. */
import { z } from 'zod';
import { AGENT_NAME_CHARACTERS } from '../domain/agent-name.ts';
import { CHILD_KINDS } from '../domain/child-kind.ts';
import { END_CAUSES } from '../domain/end-cause.ts';
import { MONITOR_NAMES } from '../domain/monitors/names.ts';
import { COST_BASES } from '../domain/price.ts';
import { FIGURE_DAYS_MAX, FIGURE_DIMENSIONS } from '../domain/traffic-figures.ts';
import { CAPTURE_ACTIVITY, ID_CHARACTERS, MODEL_CHARACTERS, NAMED_CHILD_RUNS } from '../limits.ts';
import { cachePageReply, runCacheReply } from './cache-looks.ts';
import { costFields } from './cost-fields.ts';
import { type EndpointReply, endpoint, errorBody, refusal } from './endpoint.ts';
import { cursorFields, flag, integer, literal, nextCursor, text, timestamp } from './fields.ts';
import { CURSOR_CHARACTERS } from './limits.ts';
import { markChangeFields, markFields, runMarks } from './run-marks.ts';
import { firedCounts, runQueryField, statusFields } from './run-query.ts';
import { runText, searchedExchanges, TEXT_SEARCH_CHARACTERS, textHitPage } from './text-search.ts';
import { figureReport } from './traffic-figures.ts';

const tokens = z.int().nullable();

const endCause = z.enum(END_CAUSES);

const relegationDecision = z.object({
  decision: z
    .string()
    .describe('`served`, `audit`, `would_serve`, or the reason why the student did not serve it'),
  words: z.string().describe('The same in words'),
  remedy: z
    .string()
    .describe(
      'What would have the student serve it: `would be served if …`; empty: nothing would have to change',
    ),
  student_version: z.int().nullable().describe('Of the student; null: it was not asked'),
  agent: z.string().nullable().describe('Names the agent; null: not known'),
  kind: z.string().nullable().describe('Kind of answer that the student has for it; null: none'),
  score: z.number().nullable().describe('How unlike golden steps it is, 0 to 1; null: not known'),
});

const comparison = z
  .object({
    agree: z.boolean().describe('As audits compare answers'),
    reading_differs: z
      .boolean()
      .describe("Two readings of the upstream's answer differ, so the answers do not count as equal"),
    values: z
      .array(
        z.object({
          place: z.string().describe('`text`, `call 1`, `call 1.order_id`'),
          student: z.string().nullable().describe('null: the answer of the student has nothing there'),
          upstream: z.string().nullable().describe('null: the answer of the upstream has nothing there'),
        }),
      )
      .describe('Value by value, those that differ first'),
  })
  .nullable()
  .describe('Both answers side by side; null: one of them is not known');

const reason = z.object({
  code: z.string().describe('Stable name of the reason'),
  words: z.string().describe('The reason as a sentence'),
  difference: z
    .object({
      exchange_id: z.int().describe('Whose answer it is'),
      repeated_by: z.int().describe('The exchange whose request repeats it'),
      read: z.string().describe('As it was read, from shortly before the two part'),
      repeated: z.string().describe('As it was repeated'),
    })
    .optional()
    .describe('Of `reading_differs`: both sides'),
});

const reportedPart = z
  .object({
    run_id: z
      .string()
      .describe("Differs from the captured run's where the two were joined by a trace or a session"),
    org_id: z.string().describe('The organization that reported it'),
    project_id: z.string(),
    agent_name: z.string(),
    framework: z.string(),
    task_profile: z.string(),
    codebase_id: z.string(),
    experiment_id: z.string(),
    arm: z.string(),
    is_finished: z.boolean().describe('Its end was reported'),
    started_at: z.string(),
    finished_at: z.string().nullable(),
    steps: z.int(),
    tokens: z.int().describe('As reported'),
    max_total_score: z.number(),
    fired: firedCounts,
  })
  .nullable()
  .describe('What was reported of it; null: nothing');

const capturedRun = z
  .object({
    run_id: z.string(),
    is_captured: z.boolean().describe('false: it was only reported'),
    ...statusFields,
    agent: z.string().describe('The reported name, or else the client program; empty when neither is known'),
    reported: reportedPart,
    session_id: z.string().nullable().describe("The client's own session; null: its headers name none"),
    parent_run_id: z
      .string()
      .nullable()
      .describe('The run that this one is part of; null: it is not part of a run'),
    kind: z
      .enum(CHILD_KINDS)
      .nullable()
      .describe("`subagent`, or calls of the client beside the work; null: an agent's own run"),
    child_runs: z
      .array(
        z.object({
          run_id: z.string().describe('Id of the child run'),
          kind: z.enum(CHILD_KINDS).nullable().describe('What the child run is'),
        }),
      )
      .describe(`Runs that are part of it, the first ${NAMED_CHILD_RUNS}`),
    task: z.string().nullable().describe("The user's first words; null: not read yet, ask again"),
    notes: z.array(z.string()).describe('Notes of the gateways that captured it (GW_NOTE)'),
    providers: z.array(z.string()).describe('Labels of the upstreams that answered'),
    models: z.array(z.string()).describe('Models that answered'),
    tools: z.array(z.string()).describe('Tools that its answers called, the first 64'),
    client: z.string().nullable().describe('The program that sent its first request; null: not told'),
    trace_id: z.string().nullable().describe('Of its first `traceparent`; null without one'),
    exchanges: z.int().describe('Requests with their answers, turns and others'),
    turns: z.int().describe('Exchanges that are an answer of a model'),
    student_turns: z.int().describe('Turns that the student answered'),
    started_at: z.string(),
    finished_at: z.string(),
    duration_ms: z.number(),
    input_tokens: tokens.describe(
      'Tokens of the requests, without what a cache held; null: no provider said',
    ),
    output_tokens: tokens.describe('Tokens of the answers'),
    cache_read_tokens: tokens.describe('Tokens that the provider read from its cache'),
    cache_write_tokens: tokens.describe('Tokens that the provider wrote to its cache'),
    ...costFields,
    errors: z
      .int()
      .describe(
        'Calls without a whole answer or with a status of 400 and above, and results of tools that failed',
      ),
    aborted: z.int().describe('Exchanges that one side broke off'),
    gaps: z.array(z.tuple([z.int(), z.int()])).describe('Missing x-svc-seq, both ends included'),
    outcome: z.string().nullable().describe('Of the finished monitor run of the same id; null without one'),
    ...markFields,
    request_tags: z.array(z.string()).describe('Tags that its requests brought in `x-svc-tags`'),
    keys: z
      .array(z.string())
      .describe('Signs of the credentials of its requests, and the id of the API key that reported it'),
    golden: z
      .boolean()
      .nullable()
      .describe('null: not judged yet, ask again; or the run is too long to be judged here'),
    reasons: z.array(reason).describe('Why it is not golden'),
    overruled: z.array(reason).describe('What would speak against it without the mark'),
  })
  .meta({ id: 'CapturedRun' });

const capturedRunPage = z
  .object({
    runs: z.array(capturedRun),
    found: z
      .array(runText)
      .describe('Where the texts of the query stand in these runs, as far as there was time to read them'),
    searched: searchedExchanges
      .nullable()
      .describe('What the query has looked through for its texts; null: it has none'),
    next_cursor: nextCursor,
    matched_runs: z.int().describe('Runs that match the query, of those that were looked at'),
    unread_runs: z.int().describe('Runs of which it is not known yet whether they match; they are read next'),
    scanned_runs: z.int().describe('Runs that were looked at, captured and reported'),
    listed_runs: z.int().describe('Captured runs in the list'),
    left_out_runs: z
      .int()
      .describe('Older runs that the list has no room for; they can be read by their ids'),
    exchanges_without_run: z.int().describe('Exchanges that belong to no run, such as lists of models'),
    being_read: z
      .object({
        exchanges: z.int().describe('Read in so far'),
        of: z.int().describe('Captured'),
      })
      .nullable()
      .describe('While exchanges are read in, and the newest runs alone are listed; null: all are'),
  })
  .meta({ id: 'CapturedRunPage' });

const block = z
  .looseObject({
    type: z.string().describe('`text`, `thinking`, `tool_call`, `tool_result`, `image` and the like'),
  })
  .meta({ id: 'CapturedBlock' });
const blocks = z.array(block);

const capturedTurn = z
  .object({
    exchange_id: z.int().describe('Names the exchange in `/capture/exchanges/{id}`'),
    kind: z.enum(['turn', 'other']).describe('`turn`: an answer of a model'),
    seq: z.int().nullable().describe('`x-svc-seq`; null: the client sent none'),
    method: z.string().describe('HTTP method'),
    path: z.string().describe('As the client sent it, prefix included'),
    status: z.int().describe('0: no answer came'),
    provider: z.string().describe('Label of the upstream'),
    shape: z.string().nullable().describe('Wire format; null: not one that is read'),
    model: z.string().nullable(),
    started_at: z.string(),
    first_byte_ms: z
      .number()
      .nullable()
      .describe('From the request to the head of the answer; null: none came'),
    latency_ms: z.number().describe('From the request to the end of the answer'),
    failed: z.boolean().describe('No answer, or a status of 400 and above'),
    aborted: z.boolean().describe('One side broke it off'),
    end_cause: endCause.nullable().describe('Who ended it, and why; null: it went well, or it is not known'),
    end_words: z.string().describe('The same for people; empty when null'),
    truncated: z.boolean().describe('The stored copy is the beginning of a longer body'),
    undecodable: z.boolean().describe('The stored bodies cannot be read; `problem` says why'),
    served_by: z.enum(['upstream', 'student']).describe('Who answered'),
    is_retry: z.boolean().describe('The same request as one before, which had failed'),
    link: z
      .enum(['starts', 'continues', 'repeats', 'breaks'])
      .nullable()
      .describe('How the turn follows; `breaks`: one may be missing before it'),
    conversation: z.int().nullable().describe("Which of the run's conversations, from 1 on"),
    follows: z.int().nullable().describe('The exchange that this turn continues'),
    system: blocks.nullable().describe('null: the same as before'),
    tools: z
      .array(z.looseObject({ name: z.string() }))
      .nullable()
      .describe('null: the same as before'),
    messages_added: z
      .array(
        z.object({
          role: z.enum(['system', 'user', 'assistant', 'tool']).describe('Who speaks'),
          content: blocks.describe('What is said'),
        }),
      )
      .describe('What the request adds to the turn that it continues'),
    content: blocks.describe('The answer: text, thinking, tool calls'),
    stop_reason: z.string().nullable().describe('Why the model stopped, in the words of the provider'),
    usage: z.object({
      input_tokens: tokens.describe('Tokens of the requests; null: no provider said'),
      output_tokens: tokens.describe('Tokens of the answers'),
      cache_read_tokens: tokens.describe('Tokens that the provider read from its cache'),
      cache_write_tokens: tokens.describe('Tokens that the provider wrote to its cache'),
      cache_write_1h_tokens: tokens.describe(
        'The part of `cache_write_tokens` that is billed at the one-hour rate',
      ),
      estimated: z
        .literal(true)
        .optional()
        .describe('The provider told no counts: these are estimated from the texts'),
    }),
    cost_usd: z
      .number()
      .nullable()
      .describe(
        'Dollars, by `GW_PRICES` or by the table that ships; null: nothing is charged, or it is not known',
      ),
    cost_basis: z
      .enum(COST_BASES)
      .nullable()
      .describe(
        "`told`: by the provider's counts and a price of the model. Else an estimate: `guessed_price` (that of a model whose name this one's begins with) or `estimated_tokens`. null without a cost",
      ),
    relegation: relegationDecision.nullable().describe('What was decided about the student; null: nothing'),
    error: z.string().nullable().describe('What the provider said of the failure'),
    problem: z.string().describe('What could not be read; empty when everything could'),
    is_cut: z.boolean().describe('Too large to be shown: the raw bodies have it'),
    results: z
      .array(
        z.object({
          call_id: z.string().describe('Names the call in the content of that exchange'),
          name: z.string().describe('The tool'),
          exchange_id: z.int().describe('The exchange whose answer asked for it'),
          duration_ms: z
            .number()
            .nullable()
            .describe(
              'From the end of that answer to this request: the tool, and what else the agent did meanwhile; null: not known',
            ),
          is_error: z.boolean().describe('The tool failed'),
        }),
      )
      .describe('The tool calls whose results the request brings for the first time'),
    fired: z
      .array(
        z.object({
          monitor: z.enum(MONITOR_NAMES).describe('Which of the six'),
          exchange_id: z.int().describe('The exchange whose answer it fired at'),
        }),
      )
      .describe('Monitors that fired once this exchange was known'),
  })
  .meta({ id: 'CapturedTurn' });

const capturedConversation = z
  .object({
    run: capturedRun,
    parent_is_captured: z
      .boolean()
      .describe('Something of the run that it is part of is there; false also where it is part of none'),
    children: z
      .array(
        z.object({
          run_id: z.string(),
          kind: z.enum(CHILD_KINDS).nullable().describe('What the child run is'),
          task: z.string().nullable().describe('Its first words; null: not read yet'),
          started_at: z.string(),
          duration_ms: z.number(),
          turns: z.int().describe('Its turns'),
          errors: z.int().describe('As in the run'),
          cost_usd: z.number().nullable().describe('Dollars, as in the run; null: not known'),
        }),
      )
      .describe('The child runs that are still there, in the order in which they began'),
    turns: z.array(capturedTurn).describe('In the order in which they ended'),
    next_cursor: nextCursor,
  })
  .meta({ id: 'CapturedConversation' });

const side = z.looseObject({
  headers: z
    .array(z.tuple([z.string(), z.string()]))
    .describe('Names and values in their order; credentials are masked'),
  bytes: z.int().describe('Length of the body on the wire'),
});

const capturedExchange = z
  .looseObject({
    id: z.int(),
    run_id: z.string().nullable(),
    kind: z.string().describe('`turn`: an answer of a model; else `other`'),
    method: z.string().describe('HTTP method'),
    path: z.string().describe('As the client sent it, prefix included'),
    status: z.int(),
    started_at: z.string(),
    end_cause: endCause.optional().describe('Who ended it, and why; left out where it went well'),
    credential: z
      .string()
      .optional()
      .describe('A sign of the credential that it came with: equal for equal ones; left out without one'),
    request: side.describe('What the client sent'),
    response: side.describe('What came back'),
  })
  .meta({ id: 'CapturedExchange' });

/** What the dashboard shows of them; the rest is for who looks closer. */
const ledgerFields = {
  served: z.int().describe('Turns that the student answered'),
  compared: z.int().describe('Answers that audits compared'),
  wrong: z.int().describe('Of those, how many were wrong'),
  wrong_at_least: z
    .number()
    .nullable()
    .describe('With 95 % confidence the true share of wrong answers is above it; null without a comparison'),
  wrong_at_most: z
    .number()
    .nullable()
    .describe('With 95 % confidence the true share of wrong answers is below it; null without a comparison'),
  input_tokens: z.int().describe('Tokens of requests that the upstream did not have to read, about'),
  output_tokens: z.int().describe('Tokens of answers that the upstream did not have to write, about'),
  saved_usd: z
    .number()
    .nullable()
    .describe(
      'Dollars that the upstream would have charged more, estimated; below 0 it charged less without the student; null: not known',
    ),
  unpriced: z.int().describe('Served turns that `saved_usd` leaves out: no price is known'),
  guessed: z.int().describe('Served turns in `saved_usd` with the price of a model of a similar name'),
  late: z.int().describe('Turns that the upstream answered behind an answer of the student'),
  late_usd: z
    .number()
    .describe(
      'Dollars that the upstream charged more because its prompt cache was cold; they are taken off `saved_usd`',
    ),
};

const ledgerTotal = z
  .object({
    since: z.string().nullable().describe('The first day that the ledger keeps; null: it is empty'),
    ...ledgerFields,
  })
  .nullable()
  .describe('The ledger of all agents over the days that it keeps, also before a restart; null: not known');

const captureStats = z
  .looseObject({
    status: z.enum(['ok', 'degraded', 'stopped']).describe('How capture is doing'),
    reasons: z
      .array(z.object({ reason: z.string().describe('Stable name'), text: z.string().describe('In words') }))
      .describe('Why it is not ok, the worst first'),
    uptime_s: z.int().describe('Since the start of the process'),
    org_id: z
      .string()
      .nullable()
      .describe(
        'The organization that captures belong to (`GW_ORG`): its reported runs and the captured ones are one list; null: those of the organizations that an operator owns or administers',
      ),
    db: z.looseObject({ bytes: z.int().describe('Size of the live file') }).describe('The capture database'),
    exchanges: z
      .looseObject({
        attempted: z.int().describe('Exchanges since the start'),
        captured: z.int().describe('Of those, how many are stored'),
        dropped: z.int().describe('Of those, how many were not stored'),
        in_flight: z.int().describe('Exchanges going on now'),
      })
      .describe('Since the start'),
    relegation: z
      .looseObject({
        enabled: z.boolean().describe('Whether a student may answer'),
        served: z.int().describe('Turns that the student answered since the start'),
        fallback: z.int().describe('Turns that it was asked for and the upstream answered'),
        fallbacks: z.record(z.string(), z.int()).describe('The same by reason'),
        tokens_saved: z
          .object({
            input: z.number().describe('Of requests'),
            output: z.number().describe('Of answers'),
          })
          .describe('Since the start'),
        money_saved_usd: z
          .number()
          .nullable()
          .describe('`saved_usd` of `ledger_total`; null when it is not known'),
        ledger_total: ledgerTotal,
      })
      .describe('What the student does'),
  })
  .meta({ id: 'CaptureStats' });

const milliseconds = z.number().nullable();
const activityCounts = {
  exchanges: z.int().describe('Requests with their answers'),
  turns: z.int().describe('Exchanges that are an answer of a model'),
  errors: z.int().describe('Exchanges without a whole answer, or with a status of 400 and above'),
  student_turns: z.int().describe('Exchanges that the student answered'),
  input_tokens: z.int().describe('Tokens of the requests, without what a cache held'),
  output_tokens: z.int().describe('Tokens of the answers'),
  ...costFields,
  latency_p50_ms: milliseconds.describe(
    'Of turns, to the end of the answer: half took at most that; null: no turn',
  ),
  latency_p95_ms: milliseconds.describe('Of turns, to the end of the answer: 95 in 100 took at most that'),
  first_byte_p50_ms: milliseconds.describe('Of turns, to the head of the answer: half took at most that'),
  first_byte_p95_ms: milliseconds.describe(
    'Of turns, to the head of the answer: 95 in 100 took at most that',
  ),
};

const capturedActivity = z
  .object({
    from: z.string().describe('Where the span begins'),
    to: z.string().describe('Where the span ends'),
    is_whole: z
      .boolean()
      .describe('false: the span holds more than is remembered, and its newest exchanges alone are counted'),
    ...activityCounts,
    series: z
      .array(z.object({ at: z.string().describe('Where the part begins'), ...activityCounts }))
      .describe('The same in equal parts of the span'),
    golden: z
      .object({
        golden: z.int().describe('Runs that are golden'),
        not_golden: z.int().describe('Runs that are not'),
        not_judged: z.int().describe('Runs of which it is not known yet; ask again'),
      })
      .describe('Of the newest 5,000 runs, whenever they were'),
  })
  .meta({ id: 'CapturedActivity' });

const limitsReply = z
  .object({
    limits: z
      .array(
        z.object({
          credential: z.string().describe('A sign of the credential, as exchange records have it'),
          provider: z.string().describe('Label of the upstream'),
          name: z.string().describe('`requests`, `tokens`, `5 hours`, `7 days`'),
          limit: z.number().nullable().describe('null: told as a share alone'),
          remaining: z.number().nullable().describe('null: told as a share alone'),
          used_share: z.number().nullable().describe('0 to 1; null: not told'),
          resets_at: z.string().nullable().describe('When it is free again; null: not told'),
          read_at: z.string().describe('When the provider said so'),
          runs_out_at: z
            .string()
            .nullable()
            .describe(
              'When it is used up at the pace of the last hour; null: not before it resets, or the pace is not known',
            ),
          runs: z
            .array(
              z.object({
                run_id: z.string().describe('A run of this credential'),
                tokens: z.int().describe('Its tokens in the last 24 hours'),
              }),
            )
            .describe('Those with the most tokens'),
        }),
      )
      .describe('The most used first'),
    is_whole: z.boolean().describe('false: there was more traffic than is looked at'),
  })
  .meta({ id: 'ProviderLimits' });

const relegatedStep = z
  .object({
    exchange_id: z.int().describe('Names the exchange in `/capture/exchanges/{id}`'),
    run_id: z.string().nullable(),
    started_at: z.string(),
    model: z.string().nullable(),
    served_by: z.enum(['upstream', 'student']).describe('Who answered'),
    relegation: relegationDecision.describe('What was decided'),
    comparison,
  })
  .meta({ id: 'RelegatedStep' });

const stepExplanation = z
  .object({
    exchange_id: z.int().describe('Names the exchange in `/capture/exchanges/{id}`'),
    run_id: z.string().nullable(),
    served_by: z.enum(['upstream', 'student']).describe('Who answered'),
    relegation: relegationDecision.nullable().describe('What was decided then; null: it was not kept'),
    opinion: z
      .object({
        version: z.int().describe('Of the student that is asked now'),
        decision: z.string().describe('`covered`, or why it is not'),
        rule: z.string().describe('Which rule decided, in words'),
        remedy: z.string().describe('What would have it served: `would be served if …`; empty: it is'),
        agent: z.string().nullable().describe('Identifies the agent variant; null: not known'),
        agent_name: z.string().describe('Its name; empty: it has none'),
        kind: z.string().nullable().describe('Kind of answer that the student has for it; null: none'),
        score: z.number().nullable().describe('How unlike golden steps it is, 0 to 1; null: not known'),
        threshold: z.number().nullable().describe('The largest score that is served; null: none is'),
        support: z.int().describe('Golden runs behind the answer'),
        doubts: z.record(z.string(), z.number()).nullable().describe('What the score is made of'),
        nearest: z
          .object({
            exchange_id: z.int().nullable().describe('The newest of the golden steps there; null: not known'),
            distance: z.number().describe('Share of what tells that differs, 0 to 1'),
            answers: z
              .array(
                z.object({
                  kind: z
                    .string()
                    .nullable()
                    .describe('Names of the tools called, or `text`; null: like no other'),
                  runs: z.int().describe('Golden runs that answered so'),
                }),
              )
              .describe('What golden runs answered there'),
          })
          .nullable()
          .describe('The golden step that is most like it; null without one'),
        new_things: z
          .array(
            z.object({
              place: z.string().describe('Where it stands'),
              value: z
                .string()
                .nullable()
                .describe('What stands there; null: nothing, and golden steps had it'),
              surprise: z.number().describe('0 to 1'),
            }),
          )
          .describe('What golden steps did not have, or always had'),
      })
      .nullable()
      .describe('What a student says of it now; null: `problem` says why not'),
    not_asked: z
      .string()
      .describe('Which variable keeps the gateway from asking a student on this wire; empty: none does'),
    problem: z.string().describe('Why there is no opinion; empty when there is one'),
    comparison,
  })
  .meta({ id: 'StepExplanation' });

const nullableCount = z.int().nullable();
const share = z.number().nullable();

const studentReport = z
  .object({
    mode: z.enum(['on', 'shadow', 'off']).describe('`shadow`: it is asked, and the upstream serves'),
    golden_runs_needed: z.int().describe('Golden runs that a student takes'),
    problems: z.array(z.string()).describe('What could not be read'),
    held: z
      .boolean()
      .describe('Rounds keep what they make, and it does not serve until an operator publishes it'),
    serving: nullableCount.describe('The version that serves; null: none'),
    versions: z
      .array(
        z.object({
          version: z.int().describe('Counts up'),
          share: z.number().describe('Of the runs that it serves; 0: it does not serve'),
          made_at: z.string().nullable().describe('null: its manifest cannot be read'),
          valid_until: z.string().nullable().describe('null: it does not expire'),
          golden_runs: nullableCount.describe('Runs that it comes from'),
          agents: nullableCount.describe('Agents that it tells apart'),
          steps: nullableCount.describe('Steps kept apart, on which it was measured'),
          served: nullableCount.describe('Of those, how many it served'),
          errors: nullableCount.describe('Of those served, how many wrong'),
          error_at_most: share.describe('With 95 % confidence the true share of errors is below it'),
          tokens_saved_share: share.describe('Of the tokens that those runs cost'),
          uncovered: z.record(z.string(), z.int()).describe('Steps that it did not serve, by reason'),
          problem: z.string().describe('Why its manifest cannot be read; empty when it can'),
        }),
      )
      .describe('Newest first'),
    agents: z
      .array(
        z.object({
          agent: z.string().describe('Identifies it'),
          name: z
            .string()
            .describe(
              'The name that an operator gave it, else the first words of its prompt; empty without either',
            ),
          is_named: z.boolean().describe('An operator gave it this name'),
          tools: z.array(z.string()).describe('Some of its tools'),
          state: z.enum(['serving', 'not_served', 'suspended']).describe('What becomes of its steps'),
          suspended_by: z.enum(['audit', 'operator']).nullable().describe('null: it is not suspended'),
          runs: z.int().describe('Golden runs of it'),
          measured: z
            .object({
              steps: z.int().describe('Steps kept apart'),
              served: z.int().describe('Of those, how many it served'),
              errors: z.int().describe('Of those served, how many wrong'),
            })
            .describe('What was found on runs kept apart'),
          compared: z.int().describe('Answers that audits have compared since'),
          wrong: z.int().describe('Of those, how many were wrong'),
          kinds: z
            .array(
              z.object({
                kind: z.string().describe('Names of the tools called, or `text`'),
                refused: z
                  .enum(['too_few', 'too_wrong', 'never_serve'])
                  .nullable()
                  .describe('Why it is not served; null: it is'),
                refusal: z
                  .string()
                  .describe('Why it is not served and what would change that, in words; empty: it is served'),
                runs: z.int().describe('Golden runs that say so'),
                steps: z.int().describe('Steps that say so'),
                errors: z.int().describe('Of those, how many were wrong'),
                error_at_most: z.number().describe('The share of errors is at most that'),
                is_suspended: z.boolean().describe('By an audit or an operator'),
              }),
            )
            .describe('Its kinds of answers, the one with most steps first'),
        }),
      )
      .describe('Of the version that serves, else of the newest'),
    ledger: z
      .array(
        z.object({
          day: z.string().describe('UTC'),
          agent: z.string().describe('Names it'),
          ...ledgerFields,
        }),
      )
      .describe('By day and agent'),
    ledger_total: ledgerTotal,
  })
  .meta({ id: 'StudentReport' });

const unavailable: EndpointReply = refusal('The captures cannot be read now; the detail says why');
const runNotFound = { description: 'No such run, or you are no operator', schema: errorBody };
const exchangeNotFound = { description: 'No such exchange, or you are no operator', schema: errorBody };
const exchangeParams = z.object({ id: integer({ ge: 1 }) });
const bytes = {
  description: 'The bytes as they are stored, as a download',
  media_type: 'application/octet-stream',
};

const common = { method: 'GET', auth: 'operator', any_host: true, tag: 'capture' } as const;

export const CAPTURES = {
  listCapturedRuns: endpoint({
    ...common,
    id: 'listCapturedRuns',
    path: '/capture/runs',
    summary: 'Runs, captured, reported or both, that match a query, newest first unless it says otherwise',
    query: z.object({
      ...cursorFields(CURSOR_CHARACTERS),
      from: timestamp().nullish().describe('Only runs that began at this time or later'),
      to: timestamp().nullish().describe('Only runs that began before this time'),
      model: text({ max: MODEL_CHARACTERS }).nullish().describe('Only runs in which this model answered'),
      golden: flag().nullish().describe('Only golden runs, or only others'),
      served_by: literal(['student', 'upstream'])
        .nullish()
        .describe('Only runs in which the student, or the upstream, answered a turn'),
      session: text({ max: ID_CHARACTERS }).nullish().describe('Only runs of this session of a client'),
      own: flag().nullish().describe('Only runs that are part of no other, or only those that are'),
      q: runQueryField,
    }),
    replies: { 200: { description: 'A page of runs', schema: capturedRunPage }, 503: unavailable },
  }),
  readCapturedRun: endpoint({
    ...common,
    id: 'readCapturedRun',
    path: '/capture/runs/{id}',
    summary:
      'A captured run as a conversation, by its id or that of the reported run that belongs to it: what each turn added, thinking, calls and results',
    params: z.object({ id: text({ max: ID_CHARACTERS }) }),
    query: z.object({ ...cursorFields(CURSOR_CHARACTERS) }),
    replies: {
      200: { description: 'The run and a page of its exchanges', schema: capturedConversation },
      404: runNotFound,
      503: unavailable,
    },
  }),
  readCapturedRunCache: endpoint({
    ...common,
    id: 'readCapturedRunCache',
    path: '/capture/runs/{id}/cache',
    summary: "How the turns of a captured run used the provider's prompt cache, and why they missed it",
    params: z.object({ id: text({ max: ID_CHARACTERS }) }),
    replies: {
      200: { description: 'Turn by turn, and the sum', schema: runCacheReply },
      404: runNotFound,
      503: unavailable,
    },
  }),
  sumCacheMisses: endpoint({
    ...common,
    id: 'sumCacheMisses',
    path: '/capture/cache',
    summary: "What missing the provider's prompt cache cost, by cause; a page sums some runs, newest first",
    query: z.object({
      from: timestamp().nullish().describe('Only runs that began at this time or later'),
      cursor: cursorFields(CURSOR_CHARACTERS).cursor,
    }),
    replies: { 200: { description: 'The sum over some runs', schema: cachePageReply }, 503: unavailable },
  }),
  searchCaptures: endpoint({
    ...common,
    id: 'searchCaptures',
    path: '/capture/search',
    summary: 'Full-text search over everything captured: runs with all words, "phrases" and beginn*',
    query: z.object({
      ...cursorFields(CURSOR_CHARACTERS),
      q: text({ min: 1, max: TEXT_SEARCH_CHARACTERS }).describe(
        'Words in any script; `"two words"`: side by side; `pars*`: words that begin so. Case and accents do not matter',
      ),
    }),
    replies: {
      200: { description: 'A page of runs, with the places where the words stand', schema: textHitPage },
      503: unavailable,
    },
  }),
  markCapturedRun: endpoint({
    id: 'markCapturedRun',
    method: 'POST',
    path: '/capture/runs/{id}/mark',
    auth: 'operator',
    tag: 'capture',
    summary: 'Says how a run of the list went, with tags, a note and a score; the mark overrules the verdict',
    params: z.object({ id: text({ max: ID_CHARACTERS }) }),
    body: z.object(markChangeFields),
    replies: {
      200: { description: 'The marks that the run has now', schema: runMarks },
      404: runNotFound,
      503: unavailable,
    },
  }),
  readCapturedExchange: endpoint({
    ...common,
    id: 'readCapturedExchange',
    path: '/capture/exchanges/{id}',
    summary: 'One captured exchange: its record, headers included, without bodies',
    params: exchangeParams,
    replies: {
      200: { description: 'The record', schema: capturedExchange },
      404: exchangeNotFound,
      503: unavailable,
    },
  }),
  downloadCapturedRequest: endpoint({
    ...common,
    id: 'downloadCapturedRequest',
    path: '/capture/exchanges/{id}/request',
    summary: "The request's stored body",
    params: exchangeParams,
    replies: { 200: bytes, 404: exchangeNotFound, 503: unavailable },
  }),
  downloadCapturedResponse: endpoint({
    ...common,
    id: 'downloadCapturedResponse',
    path: '/capture/exchanges/{id}/response',
    summary: "The answer's stored body",
    params: exchangeParams,
    replies: { 200: bytes, 404: exchangeNotFound, 503: unavailable },
  }),
  explainCapturedStep: endpoint({
    ...common,
    id: 'explainCapturedStep',
    path: '/capture/exchanges/{id}/explanation',
    summary: 'Why the student served a step, or did not: what was new in it, and both answers',
    params: exchangeParams,
    replies: {
      200: { description: 'The explanation', schema: stepExplanation },
      404: exchangeNotFound,
      503: unavailable,
    },
  }),
  listRelegatedSteps: endpoint({
    ...common,
    id: 'listRelegatedSteps',
    path: '/capture/steps',
    summary: `Steps about which relegation decided, newest first, of the last ${CAPTURE_ACTIVITY.exchanges} exchanges; a page may be short where a filter passes few`,
    query: z.object({
      ...cursorFields(CURSOR_CHARACTERS),
      outcome: literal(['refused', 'compared', 'disagreed', 'served'])
        .nullish()
        .describe(
          '`refused`: the upstream served; `compared`: both answers are known; `disagreed`: and differ; `served`: the student served',
        ),
    }),
    replies: {
      200: {
        description: 'A page of steps',
        schema: z
          .object({ steps: z.array(relegatedStep).describe('Newest first'), next_cursor: nextCursor })
          .meta({ id: 'RelegatedStepPage' }),
      },
      503: unavailable,
    },
  }),
  readCapturedActivity: endpoint({
    ...common,
    id: 'readCapturedActivity',
    path: '/capture/activity',
    summary: 'What passed the gateway in the last hours: counts, errors and latency, in all and over time',
    query: z.object({
      hours: integer({ ge: 1, le: CAPTURE_ACTIVITY.hours_max }).default(24).describe('How far back'),
    }),
    replies: { 200: { description: 'The figures', schema: capturedActivity }, 503: unavailable },
  }),
  readTrafficFigures: endpoint({
    ...common,
    id: 'readTrafficFigures',
    path: '/capture/figures',
    summary:
      'Cost, tokens, cache share, latency and errors by model, agent, tool, tag, credential, note or day',
    query: z.object({
      by: literal(FIGURE_DIMENSIONS).default('model').describe('What the rows are'),
      days: integer({ ge: 1, le: FIGURE_DAYS_MAX })
        .default(30)
        .describe('UTC days, the present one included'),
      model: text({ max: MODEL_CHARACTERS }).nullish().describe('Only turns that this model answered'),
      provider: text({ max: ID_CHARACTERS }).nullish().describe('Only exchanges of this upstream'),
      agent: text({ max: ID_CHARACTERS }).nullish().describe('Only exchanges of this client program'),
      tool: text({ max: ID_CHARACTERS }).nullish().describe('Only turns that called this tool'),
      note: text({ max: ID_CHARACTERS }).nullish().describe('Only exchanges with this note (`GW_NOTE`)'),
      tag: text({ max: ID_CHARACTERS }).nullish().describe('Only exchanges with this tag (`x-svc-tags`)'),
      credential: text({ max: ID_CHARACTERS })
        .nullish()
        .describe('Only exchanges with this sign of a credential'),
    }),
    replies: { 200: { description: 'The figures', schema: figureReport }, 503: unavailable },
  }),
  readProviderLimits: endpoint({
    ...common,
    id: 'readProviderLimits',
    path: '/capture/limits',
    summary: "What is left of providers' rate limits and quotas, by credential, and when it runs out",
    replies: { 200: { description: 'The limits', schema: limitsReply }, 503: unavailable },
  }),
  readStudentReport: endpoint({
    ...common,
    id: 'readStudentReport',
    path: '/capture/student',
    summary: 'The student: its versions, agents and kinds of answers, and what it has served and saved',
    replies: { 200: { description: 'The report', schema: studentReport } },
  }),
  nameStudentAgent: endpoint({
    id: 'nameStudentAgent',
    method: 'POST',
    path: '/capture/student/names',
    auth: 'operator',
    tag: 'capture',
    summary: 'Names an agent variant of the student, for people; nothing that it serves changes',
    body: z.object({
      agent: text({ min: 1, max: 200 }).describe('As the report identifies it'),
      name: text({ min: 1, max: AGENT_NAME_CHARACTERS })
        .nullable()
        .describe('null: takes the name away, and the first words of its prompt count again'),
    }),
    replies: {
      200: {
        description: 'The name that it has now',
        schema: z
          .object({
            agent: z.string().describe('As the report identifies it'),
            name: z.string().describe('Empty: it has none'),
            is_named: z.boolean().describe('An operator gave it this name'),
          })
          .meta({ id: 'StudentAgentName' }),
      },
      404: { description: 'No such agent variant, no student, or you are no operator', schema: errorBody },
    },
  }),
  readCaptureStats: endpoint({
    ...common,
    id: 'readCaptureStats',
    path: '/capture/stats',
    summary: "The gateway's stats, as `/__gw/stats` tells them",
    replies: {
      200: { description: 'The stats', schema: captureStats },
      404: { description: 'This process has no gateway, or you are no operator', schema: errorBody },
    },
  }),
} as const;
