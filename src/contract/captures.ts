/** What the gateway captured, for the operators of the service (document 4, "Captures"). Data; any thread. */
import { z } from 'zod';
import { AGENT_NAME_CHARACTERS } from '../domain/agent-name.ts';
import { CHILD_KINDS } from '../domain/child-kind.ts';
import { END_CAUSES } from '../domain/end-cause.ts';
import { MONITOR_NAMES } from '../domain/monitors/names.ts';
import { COST_BASES } from '../domain/price.ts';
import { FIGURE_DAYS_MAX, FIGURE_DIMENSIONS } from '../domain/traffic-figures.ts';
import {
  CAPTURE_ACTIVITY,
  CAPTURE_NEWEST,
  ID_CHARACTERS,
  MODEL_CHARACTERS,
  NAMED_CHILD_RUNS,
} from '../limits.ts';
import { AGENT_CHARACTERS, cachePeriodReply, runCacheReply } from './cache-looks.ts';
import { costFields } from './cost-fields.ts';
import { type EndpointReply, endpoint, errorBody, refusal } from './endpoint.ts';
import { cursorFields, flag, integer, literal, nextCursor, text, timestamp } from './fields.ts';
import { CURSOR_CHARACTERS } from './limits.ts';
import { notIndexed } from './not-indexed.ts';
import { markChangeFields, markFields, runMarks } from './run-marks.ts';
import { countedValues, firedCounts, runQueryField, statusFields, valueQueryFields } from './run-query.ts';
import { runText, searchedExchanges, TEXT_SEARCH_CHARACTERS, textHitPage } from './text-search.ts';
import { figureReport } from './traffic-figures.ts';

const tokens = z.int().nullable();

const endCause = z.enum(END_CAUSES);

const relegationDecision = z.object({
  decision: z
    .string()
    .describe('`served`, `audit`, `would_serve`, or the reason why the student did not serve the step'),
  words: z.string().describe('The decision in words'),
  remedy: z
    .string()
    .describe(
      'The condition under which the student would serve the step: `would be served if …`; empty: it is served already, or no condition is known',
    ),
  student_version: z.int().nullable().describe('Version of the student; null: no student was asked'),
  agent: z.string().nullable().describe('Id of the agent; null: unknown'),
  kind: z.string().nullable().describe('Kind of the student’s answer; null: it has no answer'),
  score: z
    .number()
    .nullable()
    .describe('How much the step differs from golden steps, from 0 to 1; null: unknown'),
});

const comparison = z
  .object({
    agree: z.boolean().describe('Whether an audit would count the answers as equal'),
    reading_differs: z
      .boolean()
      .describe(
        "Two ways of reading the upstream's answer give different results, so the answers do not count as equal",
      ),
    values: z
      .array(
        z.object({
          place: z.string().describe('`text`, `call 1`, `call 1.order_id`'),
          student: z.string().nullable().describe("null: the student's answer lacks this value"),
          upstream: z.string().nullable().describe("null: the upstream's answer lacks this value"),
        }),
      )
      .describe('The values of both answers, different ones first'),
  })
  .nullable()
  .describe('Both answers side by side; null: one of them is unknown');

const reason = z.object({
  code: z.string().describe('Stable name of the reason'),
  words: z.string().describe('The reason as a sentence'),
  difference: z
    .object({
      exchange_id: z.int().describe('The exchange that has the answer'),
      repeated_by: z.int().describe('The exchange whose request repeats that answer'),
      read: z.string().describe('The answer as it was read, from shortly before the difference'),
      repeated: z.string().describe('The answer as it was repeated'),
    })
    .optional()
    .describe('For `reading_differs`: both versions'),
});

const reportedPart = z
  .object({
    run_id: z
      .string()
      .describe("Differs from the captured run's id if a trace or a session joined the two runs"),
    org_id: z.string().describe('The organization that reported the run'),
    project_id: z.string(),
    agent_name: z.string(),
    framework: z.string(),
    task_profile: z.string(),
    codebase_id: z.string(),
    experiment_id: z.string(),
    arm: z.string(),
    is_finished: z.boolean().describe('Whether the end of the run was reported'),
    started_at: z.string(),
    finished_at: z.string().nullable(),
    steps: z.int(),
    tokens: z.int().describe('As reported'),
    max_total_score: z.number(),
    fired: firedCounts,
  })
  .nullable()
  .describe('The reported part of the run; null: nothing was reported');

const capturedRun = z
  .object({
    run_id: z.string(),
    is_captured: z.boolean().describe('false: the run was only reported'),
    ...statusFields,
    agent: z.string().describe('The reported name, or else the client program; empty if both are unknown'),
    reported: reportedPart,
    session_id: z.string().nullable().describe("The client's own session; null: its headers name no session"),
    parent_run_id: z.string().nullable().describe('The parent run; null: the run has no parent'),
    kind: z
      .enum(CHILD_KINDS)
      .nullable()
      .describe("`subagent`, or calls that the client makes beside its work; null: an agent's own run"),
    child_runs: z
      .array(
        z.object({
          run_id: z.string().describe('Id of the child run'),
          kind: z.enum(CHILD_KINDS).nullable().describe('Kind of the child run'),
        }),
      )
      .describe(`The first ${NAMED_CHILD_RUNS} child runs`),
    task: z.string().nullable().describe("The user's first words; null: not read yet, repeat the request"),
    notes: z.array(z.string()).describe('Notes of the gateways that captured the run (GW_NOTE)'),
    providers: z.array(z.string()).describe('Labels of the upstreams that answered'),
    models: z.array(z.string()).describe('Models that answered'),
    tools: z.array(z.string()).describe('Tools that the answers of the run called, the first 64'),
    client: z
      .string()
      .nullable()
      .describe('The program that sent the first request of the run; null: unknown'),
    trace_id: z
      .string()
      .nullable()
      .describe('Trace id of the first `traceparent` of the run; null: no request had one'),
    exchanges: z.int().describe('Requests with their answers: turns and others'),
    turns: z.int().describe('Exchanges in which a model answered'),
    student_turns: z.int().describe('Turns that the student answered'),
    started_at: z.string(),
    finished_at: z.string(),
    duration_ms: z.number(),
    input_tokens: tokens.describe('Tokens of the requests, without cached ones; null: not reported'),
    output_tokens: tokens.describe('Tokens of the answers'),
    cache_read_tokens: tokens.describe('Tokens that the provider read from its cache'),
    cache_write_tokens: tokens.describe('Tokens that the provider wrote to its cache'),
    ...costFields,
    errors: z
      .int()
      .describe('Calls without a complete answer or with a status of 400 and above, and failed tool calls'),
    aborted: z.int().describe('Exchanges that the client, the upstream or the gateway ended early'),
    gaps: z.array(z.tuple([z.int(), z.int()])).describe('Ranges of missing x-svc-seq values, with both ends'),
    outcome: z
      .string()
      .nullable()
      .describe(
        'Outcome of the finished reported run with the same id; null: no such run has finished, or the outcomes of its organization do not count for captures',
      ),
    ...markFields,
    request_tags: z.array(z.string()).describe('Tags from the header `x-svc-tags` of the requests'),
    keys: z
      .array(z.string())
      .describe(
        'Fingerprints of the credentials of the requests, and the id of the API key that reported the run',
      ),
    golden: z
      .boolean()
      .nullable()
      .describe(
        'Whether the run is golden; null: not judged yet (repeat the request; a long run is judged after a pause), or the run is too long to be judged here',
      ),
    reasons: z.array(reason).describe('Reasons why the run is not golden'),
    overruled: z.array(reason).describe('Reasons against golden that the mark overrules'),
  })
  .meta({ id: 'CapturedRun' });

const exchangeBeingIndexed = z
  .object({
    exchange_id: z.int().describe('Names the exchange in `/capture/exchanges/{id}`'),
    run_id: z
      .string()
      .nullable()
      .describe(
        'The run that the request names; null: the request names no run, or the run is known only after indexing',
      ),
    run_is_listed: z.boolean().describe('Whether the list has a row of that run, from earlier exchanges'),
    provider: z.string().describe('Label of the upstream'),
    kind: z.enum(['turn', 'other']).describe('`turn`: an answer of a model, judged by the path alone'),
    method: z.string().describe('HTTP method'),
    path: z
      .string()
      .describe(`The path, including the prefix: its first ${CAPTURE_NEWEST.path_characters} characters`),
    served_by: z.enum(['upstream', 'student']).describe('Who answered'),
    status: z.int().describe('0: no answer came'),
    failed: z.boolean().describe('No answer, or a status of 400 and above'),
    aborted: z.boolean().describe('The client, the upstream or the gateway ended the exchange early'),
    started_at: z.string(),
    duration_ms: z.number(),
    request_bytes: z.int().describe('Length of the request’s body on the wire'),
    response_bytes: z.int().describe('Length of the answer’s body on the wire'),
  })
  .meta({ id: 'ExchangeBeingIndexed' });

const beingIndexed = z
  .object({
    stored: z.int().describe('Number of exchanges that are stored but not indexed yet'),
    examined: z
      .int()
      .describe(
        `Number of the newest of these exchanges to which the query was applied, at most ${CAPTURE_NEWEST.exchanges}`,
      ),
    undecided: z
      .int()
      .describe(
        'Examined exchanges that are not shown, because the query or its order needs values that are known only after indexing',
      ),
    exchanges: z
      .array(exchangeBeingIndexed)
      .describe('The examined exchanges that the query selects, newest first, at most `limit`'),
  })
  .nullable()
  .describe(
    'Exchanges that are stored but not indexed yet, because the gateway is busy. Only the first page has them. null: all exchanges are indexed, or this is a later page',
  );

const gatheredCaptures = z.object({
  looked_at: timestamp().nullable().describe('When the bucket was last read; null: not yet'),
  failure: z
    .string()
    .nullable()
    .describe('Why the bucket could not be read; null: the last reading succeeded'),
  gateways: z
    .array(
      z.object({
        gateway: z.string().describe('Name of the gateway in the bucket'),
        sent_at: timestamp()
          .nullable()
          .describe('When the gateway last wrote its list of files to the bucket; null: unknown'),
        newest_at: timestamp()
          .nullable()
          .describe('When the newest exchange that was read from this gateway ended; null: none was read'),
        exchanges: z.int().describe('Number of exchanges that were read from this gateway'),
        failure: z
          .string()
          .nullable()
          .describe('Why the captures of this gateway could not be read; null: the last reading succeeded'),
      }),
    )
    .describe('The gateways in the bucket, by name'),
});

const capturedRunPage = z
  .object({
    runs: z.array(capturedRun),
    found: z
      .array(runText)
      .describe(
        'Where these runs contain the texts of the query. A run is missing if there was no time to read it',
      ),
    searched: searchedExchanges
      .nullable()
      .describe('How much was searched for the texts of the query; null: the query has no texts'),
    next_cursor: nextCursor,
    matched_runs: z.int().describe('Runs that match the query, among the searched ones'),
    unread_runs: z.int().describe('Runs that may match: they are read next, or when they have paused'),
    scanned_runs: z.int().describe('Searched runs, captured and reported'),
    listed_runs: z.int().describe('Captured runs in the list'),
    left_out_runs: z
      .int()
      .describe('Older runs for which the list has no room; they can be read by their ids'),
    exchanges_without_run: z.int().describe('Exchanges that belong to no run, such as lists of models'),
    being_read: z
      .object({
        exchanges: z.int().describe('Exchanges read so far'),
        of: z.int().describe('All captured exchanges'),
      })
      .nullable()
      .describe(
        'How far the reading of all exchanges is. Until it ends, the list has only the newest runs. null: it has ended',
      ),
    being_indexed: beingIndexed,
    gathered: gatheredCaptures
      .nullable()
      .describe(
        'The bucket that the captures were read from, and its gateways; null: `CAPTURE_READ_URL` is not set, and this machine made the captures',
      ),
  })
  .meta({ id: 'CapturedRunPage' });

const block = z
  .looseObject({
    type: z.string().describe('`text`, `thinking`, `tool_call`, `tool_result`, `image` and so on'),
  })
  .meta({ id: 'CapturedBlock' });
const blocks = z.array(block);

const capturedTurn = z
  .object({
    exchange_id: z.int().describe('Names the exchange in `/capture/exchanges/{id}`'),
    kind: z.enum(['turn', 'other']).describe('`turn`: an answer of a model'),
    seq: z.int().nullable().describe('Value of `x-svc-seq`; null: the client did not send it'),
    method: z.string().describe('HTTP method'),
    path: z.string().describe('Path as the client sent it, including the prefix'),
    status: z.int().describe('0: no answer came'),
    provider: z.string().describe('Label of the upstream'),
    shape: z.string().nullable().describe('Wire format; null: a format that is not read'),
    model: z.string().nullable(),
    started_at: z.string(),
    first_byte_ms: z
      .number()
      .nullable()
      .describe('From the request to the head of the answer; null: no answer came'),
    latency_ms: z.number().describe('From the request to the end of the answer'),
    failed: z.boolean().describe('No answer, or a status of 400 and above'),
    aborted: z.boolean().describe('The client, the upstream or the gateway ended the exchange early'),
    end_cause: endCause
      .nullable()
      .describe('Who ended the exchange, and why; null: the exchange succeeded, or the cause is unknown'),
    end_words: z.string().describe('`end_cause` in words; empty if `end_cause` is null'),
    truncated: z.boolean().describe('The stored copy is only the beginning of the body'),
    undecodable: z.boolean().describe('The stored bodies cannot be read; `problem` says why'),
    served_by: z.enum(['upstream', 'student']).describe('Who answered'),
    is_retry: z.boolean().describe('Whether the exchange repeats an earlier request that had failed'),
    link: z
      .enum(['starts', 'continues', 'repeats', 'breaks'])
      .nullable()
      .describe('How the turn continues the conversation; `breaks`: a turn may be missing before it'),
    conversation: z.int().nullable().describe('Number of the conversation within the run, from 1 on'),
    follows: z.int().nullable().describe('The exchange that this turn continues'),
    system: blocks.nullable().describe('The system prompt; null: the same as in the previous turn'),
    tools: z
      .array(z.looseObject({ name: z.string() }))
      .nullable()
      .describe('The tools; null: the same as in the previous turn'),
    messages_added: z
      .array(
        z.object({
          role: z.enum(['system', 'user', 'assistant', 'tool']).describe('Who wrote the message'),
          content: blocks.describe('The content of the message'),
        }),
      )
      .describe('The messages that the request adds to the previous turn'),
    content: blocks.describe('The answer: text, thinking, tool calls'),
    stop_reason: z.string().nullable().describe("Why the model stopped, in the provider's words"),
    usage: z.object({
      input_tokens: tokens.describe('Tokens of the request; null: not reported'),
      output_tokens: tokens.describe('Tokens of the answer'),
      cache_read_tokens: tokens.describe('Tokens that the provider read from its cache'),
      cache_write_tokens: tokens.describe('Tokens that the provider wrote to its cache'),
      cache_write_1h_tokens: tokens.describe(
        'The part of `cache_write_tokens` that is billed at the one-hour rate',
      ),
      estimated: z
        .literal(true)
        .optional()
        .describe('Whether the counts are estimated from the texts, because the provider reported none'),
      tier: z
        .string()
        .optional()
        .describe(
          'The tier of service that the answer names, such as `flex` or `priority`; absent: the standard tier',
        ),
    }),
    cost_usd: z
      .number()
      .nullable()
      .describe(
        'Dollars, by `GW_PRICES` or the built-in price table; null: nothing is charged, or the cost is unknown, for instance because the model has no price at this tier',
      ),
    cost_basis: z
      .enum(COST_BASES)
      .nullable()
      .describe(
        "`told`: from the provider's counts and a known price. Otherwise an estimate: `guessed_price` (the price of a model whose name is the beginning of this name) or `estimated_tokens`. null without a cost",
      ),
    relegation: relegationDecision
      .nullable()
      .describe('The decision whether the student serves; null: no decision'),
    error: z.string().nullable().describe("The provider's error message"),
    problem: z.string().describe('What could not be read; empty if everything could'),
    is_cut: z.boolean().describe('The content is too large to be shown; the raw bodies contain it'),
    results: z
      .array(
        z.object({
          call_id: z.string().describe('Id of the call in the content of the exchange `exchange_id`'),
          name: z.string().describe('The tool'),
          exchange_id: z.int().describe('The exchange whose answer contains the call'),
          duration_ms: z
            .number()
            .nullable()
            .describe(
              'From the end of the answer with the call to this request: the time of the tool and of everything else that the agent did; null: unknown',
            ),
          is_error: z.boolean().describe('The tool failed'),
        }),
      )
      .describe('Tool calls whose results this request is the first to contain'),
    fired: z
      .array(
        z.object({
          monitor: z.enum(MONITOR_NAMES).describe('Name of the monitor'),
          exchange_id: z.int().describe('The exchange at whose answer the monitor fired'),
        }),
      )
      .describe('Monitors that fired after this exchange'),
  })
  .meta({ id: 'CapturedTurn' });

const capturedConversation = z
  .object({
    run: capturedRun,
    parent_is_captured: z
      .boolean()
      .describe('Whether the parent run has data; false if the run has no parent'),
    children: z
      .array(
        z.object({
          run_id: z.string(),
          kind: z.enum(CHILD_KINDS).nullable().describe('Kind of the child run'),
          task: z.string().nullable().describe('First words of the child run; null: not read yet'),
          started_at: z.string(),
          duration_ms: z.number(),
          turns: z.int().describe('Turns of the child run'),
          errors: z.int().describe('Failed calls and tools of the child run'),
          cost_usd: z.number().nullable().describe('Dollars, as in the run; null: unknown'),
        }),
      )
      .describe('The child runs that still have data, in the order of their beginning'),
    turns: z.array(capturedTurn).describe('Exchanges in the order in which the client sent their requests'),
    being_indexed: z
      .array(exchangeBeingIndexed)
      .describe(
        'On the last page: those of the newest stored but not indexed exchanges whose requests name this run',
      ),
    next_cursor: nextCursor,
  })
  .meta({ id: 'CapturedConversation' });

const side = z.looseObject({
  headers: z
    .array(z.tuple([z.string(), z.string()]))
    .describe('Names and values in the original order; credentials are masked'),
  bytes: z.int().describe('Length of the body on the wire'),
});

const capturedExchange = z
  .looseObject({
    id: z.int(),
    run_id: z.string().nullable(),
    kind: z.string().describe('`turn`: an answer of a model; else `other`'),
    method: z.string().describe('HTTP method'),
    path: z.string().describe('Path as the client sent it, including the prefix'),
    status: z.int(),
    started_at: z.string(),
    end_cause: endCause
      .optional()
      .describe('Who ended the exchange, and why; absent if the exchange succeeded'),
    credential: z
      .string()
      .optional()
      .describe(
        'Fingerprint of the credential of the request; equal credentials have equal fingerprints. Absent: the request had no credential',
      ),
    request: side.describe('What the client sent'),
    response: side.describe('What came back'),
  })
  .meta({ id: 'CapturedExchange' });

/** The fields of the ledger that the dashboard shows. An answer has more fields for other clients. */
const ledgerFields = {
  served: z.int().describe('Turns that the student answered'),
  compared: z.int().describe('Answers that audits compared'),
  wrong: z.int().describe('Compared answers that were wrong'),
  wrong_at_least: z
    .number()
    .nullable()
    .describe(
      'Lower bound of the true share of wrong answers, with 95 % confidence; null without a comparison',
    ),
  wrong_at_most: z
    .number()
    .nullable()
    .describe(
      'Upper bound of the true share of wrong answers, with 95 % confidence; null without a comparison',
    ),
  input_tokens: z.int().describe('Approximate tokens of requests that the upstream did not have to read'),
  output_tokens: z.int().describe('Approximate tokens of answers that the upstream did not have to write'),
  saved_usd: z
    .number()
    .nullable()
    .describe(
      'Estimated net saving in dollars: what the upstream would have charged for the served steps, minus the costs of the student’s service and of late take-overs. Negative: the student cost more than it saved; null: unknown',
    ),
  unpriced: z.int().describe('Served turns that `saved_usd` leaves out, because no price is known'),
  guessed: z
    .int()
    .describe('Served turns that `saved_usd` counts with the price of a model with a similar name'),
  late: z.int().describe('Turns that the upstream answered directly after an answer of the student'),
  late_usd: z
    .number()
    .describe(
      'Dollars that the upstream charged in addition because its prompt cache was cold. They are already subtracted from `saved_usd`',
    ),
};

const ledgerTotal = z
  .object({
    since: z.string().nullable().describe('The first day in the ledger; null: the ledger is empty'),
    ...ledgerFields,
  })
  .nullable()
  .describe('Totals of the ledger over all agents and days, including days before a restart; null: unknown');

const captureStats = z
  .looseObject({
    status: z.enum(['ok', 'degraded', 'stopped']).describe('State of capture'),
    reasons: z
      .array(z.object({ reason: z.string().describe('Stable name'), text: z.string().describe('In words') }))
      .describe('Why the status is not `ok`, worst reason first'),
    uptime_s: z.int().describe('Seconds since the start of the process'),
    org_id: z
      .string()
      .nullable()
      .describe(
        'The organization of the captures (`GW_ORG`): captured runs and its reported runs are one list. null: the reported runs are those of the organizations that the operator owns or administers',
      ),
    db: z.looseObject({ bytes: z.int().describe('Size of the live file') }).describe('The capture database'),
    exchanges: z
      .looseObject({
        attempted: z.int().describe('All exchanges'),
        captured: z.int().describe('Exchanges that are stored'),
        dropped: z.int().describe('Exchanges that were not stored'),
        in_flight: z.int().describe('Exchanges in progress or not stored yet'),
      })
      .describe('Counts of exchanges since the start of the process'),
    relegation: z
      .looseObject({
        enabled: z.boolean().describe('Whether a student may answer'),
        served: z.int().describe('Turns that the student answered since the start'),
        fallback: z
          .int()
          .describe('Turns that a student could have been asked about, but that the upstream answered'),
        fallbacks: z.record(z.string(), z.int()).describe('Number of turns in `fallback`, by reason'),
        tokens_saved: z
          .object({
            input: z.number().describe('Tokens of requests'),
            output: z.number().describe('Tokens of answers'),
          })
          .describe('Tokens saved since the start of the process'),
        money_saved_usd: z.number().nullable().describe('`saved_usd` of `ledger_total`; null if unknown'),
        ledger_total: ledgerTotal,
      })
      .describe('State of the student'),
  })
  .meta({ id: 'CaptureStats' });

const milliseconds = z.number().nullable();
const activityCounts = {
  exchanges: z.int().describe('Requests with their answers'),
  turns: z.int().describe('Exchanges in which a model answered'),
  errors: z.int().describe('Exchanges without a complete answer, or with a status of 400 and above'),
  student_turns: z.int().describe('Exchanges that the student answered'),
  input_tokens: z.int().describe('Tokens of the requests, without cached ones'),
  output_tokens: z.int().describe('Tokens of the answers'),
  cache_read_tokens: z.int().describe('Tokens of the requests that providers read from their caches'),
  cache_write_tokens: z.int().describe('Tokens of the requests that providers wrote into their caches'),
  ...costFields,
  latency_p50_ms: milliseconds.describe('Median time of turns until the end of the answer; null: no turns'),
  latency_p95_ms: milliseconds.describe('95th percentile of the time of turns until the end of the answer'),
  first_byte_p50_ms: milliseconds.describe('Median time of turns until the head of the answer'),
  first_byte_p95_ms: milliseconds.describe(
    '95th percentile of the time of turns until the head of the answer',
  ),
};

const capturedActivity = z
  .object({
    from: z.string().describe('Start of the period'),
    to: z.string().describe('End of the period'),
    is_whole: z
      .boolean()
      .describe('false: only the newest exchanges of the period are counted, because the memory is bounded'),
    not_indexed: notIndexed,
    ...activityCounts,
    errors_without_run: z
      .int()
      .describe('How many of `errors` belong to no run, such as a refused list of models'),
    failed_without_run: z
      .array(
        z.object({
          exchange_id: z.int().describe('Names the exchange in `/capture/exchanges/{id}`'),
          started_at: z.string().describe('When the request arrived'),
          method: z.string().describe("The request's method"),
          path: z.string().describe("The request's path"),
          provider: z.string().describe('Label of the upstream'),
          status: z.int().describe('0: no answer came'),
          aborted: z.boolean().describe('The client, the upstream or the gateway ended the exchange early'),
        }),
      )
      .describe('The newest exchanges of `errors_without_run`, newest first, at most 20'),
    series: z
      .array(z.object({ at: z.string().describe('Start of the part'), ...activityCounts }))
      .describe('The same figures for equal parts of the period'),
    golden: z
      .object({
        golden: z.int().describe('Number of golden runs'),
        not_golden: z.int().describe('Number of runs that are not golden'),
        not_judged: z.int().describe('Number of runs that are not judged yet; repeat the request'),
      })
      .describe('Counts of the newest 5,000 runs, independent of the period'),
  })
  .meta({ id: 'CapturedActivity' });

const limitsReply = z
  .object({
    limits: z
      .array(
        z.object({
          credential: z
            .string()
            .nullable()
            .describe(
              'Fingerprint of the credential, as in exchange records; null: the requests had no credential, for example because the gateway adds one',
            ),
          provider: z.string().describe('Label of the upstream'),
          name: z.string().describe('`requests`, `tokens`, `5 hours`, `7 days`'),
          limit: z.number().nullable().describe('The limit; null: only a share was reported'),
          remaining: z
            .number()
            .nullable()
            .describe('What remains of the limit; null: only a share was reported'),
          used_share: z.number().nullable().describe('Used share of the limit, from 0 to 1; null: unknown'),
          resets_at: z.string().nullable().describe('When the limit resets; null: unknown'),
          read_at: z.string().describe('When the provider reported it'),
          runs_out_at: z
            .string()
            .nullable()
            .describe(
              'When the limit will be used up at the rate of the last hour; null: not before it resets, or the rate is unknown',
            ),
          runs: z
            .array(
              z.object({
                run_id: z.string().describe('A run of this credential'),
                tokens: z.int().describe('Tokens of the run in the last 24 hours'),
              }),
            )
            .describe('The runs with the most tokens'),
        }),
      )
      .describe('Most used limits first'),
    is_whole: z.boolean().describe('false: there was more traffic than was examined'),
  })
  .meta({ id: 'ProviderLimits' });

const relegatedStep = z
  .object({
    exchange_id: z.int().describe('Names the exchange in `/capture/exchanges/{id}`'),
    run_id: z.string().nullable(),
    started_at: z.string(),
    model: z.string().nullable(),
    served_by: z.enum(['upstream', 'student']).describe('Who answered'),
    relegation: relegationDecision.describe('The decision whether the student serves'),
    comparison,
  })
  .meta({ id: 'RelegatedStep' });

const stepExplanation = z
  .object({
    exchange_id: z.int().describe('Names the exchange in `/capture/exchanges/{id}`'),
    run_id: z.string().nullable(),
    served_by: z.enum(['upstream', 'student']).describe('Who answered'),
    relegation: relegationDecision.nullable().describe('The decision at that time; null: it is not stored'),
    opinion: z
      .object({
        version: z
          .int()
          .describe('The present version of the student, which judged the step for this answer'),
        decision: z.string().describe('`covered`, or the reason why the step is not covered'),
        rule: z.string().describe('The rule that decided, in words'),
        remedy: z
          .string()
          .describe(
            'The condition under which the answer would be served: `would be served if …`; empty: it is served',
          ),
        agent: z.string().nullable().describe('Id of the agent variant; null: unknown'),
        agent_name: z.string().describe('Name of the agent variant; empty without a name'),
        kind: z.string().nullable().describe('Kind of the student’s answer; null: it has no answer'),
        score: z
          .number()
          .nullable()
          .describe('How much the step differs from golden steps, from 0 to 1; null: unknown'),
        threshold: z
          .number()
          .nullable()
          .describe('The largest score that is served; null: nothing is served'),
        support: z.int().describe('Golden runs that support the answer'),
        doubts: z.record(z.string(), z.number()).nullable().describe('The parts of the score'),
        nearest: z
          .object({
            exchange_id: z
              .int()
              .nullable()
              .describe('The exchange of the newest golden step in this situation; null: unknown'),
            distance: z.number().describe('Share of the relevant features that differ, 0 to 1'),
            answers: z
              .array(
                z.object({
                  kind: z
                    .string()
                    .nullable()
                    .describe('Names of the called tools, or `text`; null: no template explains the answers'),
                  runs: z.int().describe('Golden runs with this answer'),
                }),
              )
              .describe('Golden answers at the nearest step'),
          })
          .nullable()
          .describe('The most similar golden step; null: no golden step is known'),
        new_things: z
          .array(
            z.object({
              place: z.string().describe('Where the value is in the request'),
              value: z
                .string()
                .nullable()
                .describe('The value there; null: this step has no value there, but golden steps do'),
              surprise: z.number().describe('How surprising the value is, from 0 to 1'),
            }),
          )
          .describe(
            'Values of this step that no golden step has, and values of all golden steps that this step lacks',
          ),
      })
      .nullable()
      .describe("The present student's judgement; null: it has none, and `problem` says why"),
    not_asked: z
      .string()
      .describe(
        'The variable that prevents the gateway from asking a student for this wire format; empty: the gateway asks',
      ),
    problem: z.string().describe('Why the student could not judge the step; empty if it could'),
    comparison,
  })
  .meta({ id: 'StepExplanation' });

const nullableCount = z.int().nullable();
const share = z.number().nullable();

const studentReport = z
  .object({
    mode: z.enum(['on', 'shadow', 'off']).describe('`shadow`: the student is asked, but the upstream serves'),
    golden_runs_needed: z.int().describe('Golden runs that a student needs'),
    problems: z.array(z.string()).describe('What could not be read'),
    held: z.boolean().describe('Whether a new student serves only after an operator publishes it'),
    serving: nullableCount.describe('The serving version; null: no version serves'),
    versions: z
      .array(
        z.object({
          version: z.int().describe('Number of the version; the first one is 1'),
          share: z.number().describe('Share of runs that this version may serve; 0: it does not serve'),
          made_at: z
            .string()
            .nullable()
            .describe('When this version was made; null: its manifest cannot be read'),
          valid_until: z.string().nullable().describe('When this version expires; null: never'),
          golden_runs: nullableCount.describe('Number of runs from which this version was made'),
          agents: nullableCount.describe('Number of agent variants'),
          steps: nullableCount.describe('Number of held-out steps on which this version was measured'),
          served: nullableCount.describe('Number of these steps that the student served'),
          errors: nullableCount.describe('Served steps that were wrong'),
          error_at_most: share.describe('Upper bound of the true share of errors, with 95 % confidence'),
          tokens_saved_share: share.describe('Saved tokens, as a share of all tokens of the held-out runs'),
          uncovered: z
            .record(z.string(), z.int())
            .describe('Number of held-out steps that the student did not serve, by reason'),
          problem: z
            .string()
            .describe('Why the manifest of this version cannot be read; empty if it can be read'),
        }),
      )
      .describe('Newest first'),
    agents: z
      .array(
        z.object({
          agent: z.string().describe('Id of the agent variant'),
          name: z
            .string()
            .describe(
              'The name that an operator gave, else the first words of the prompt; empty if there is neither',
            ),
          is_named: z.boolean().describe('Whether an operator gave this name'),
          tools: z.array(z.string()).describe('Some tools of the agent variant'),
          state: z.enum(['serving', 'not_served', 'suspended']).describe('State of the agent variant'),
          suspended_by: z
            .enum(['audit', 'operator'])
            .nullable()
            .describe('Who suspended the agent variant; null: it is not suspended'),
          runs: z.int().describe('Golden runs of this agent variant'),
          measured: z
            .object({
              steps: z.int().describe('Held-out steps'),
              served: z.int().describe('Held-out steps that the student served'),
              errors: z.int().describe('Served steps that were wrong'),
            })
            .describe('Results on held-out runs'),
          compared: z.int().describe('Answers that audits have compared'),
          wrong: z.int().describe('Compared answers that were wrong'),
          kinds: z
            .array(
              z.object({
                kind: z.string().describe('Names of the called tools, or `text`'),
                refused: z
                  .enum(['too_few', 'too_wrong', 'never_serve'])
                  .nullable()
                  .describe('Why this kind of answer is not served; null: it is served'),
                refusal: z
                  .string()
                  .describe(
                    '`refused` in words, with what would change it; empty: this kind of answer is served',
                  ),
                runs: z.int().describe('Golden runs with this kind of answer'),
                steps: z.int().describe('Steps with this kind of answer'),
                errors: z.int().describe('Steps that the student answered wrongly'),
                error_at_most: z.number().describe('Upper bound of the share of errors'),
                is_suspended: z
                  .boolean()
                  .describe('Whether an audit or an operator suspended this kind of answer'),
              }),
            )
            .describe('Kinds of answers of this agent variant, most steps first'),
        }),
      )
      .describe('Agents of the serving version, else of the newest version'),
    ledger: z
      .array(
        z.object({
          day: z.string().describe('The UTC day'),
          agent: z.string().describe('Id of the agent variant'),
          ...ledgerFields,
        }),
      )
      .describe('Entries of the ledger by day and agent'),
    ledger_total: ledgerTotal,
  })
  .meta({ id: 'StudentReport' });

const unavailable: EndpointReply = refusal('The captures cannot be read now; the detail says why');
const runNotFound = { description: 'The run does not exist, or you are not an operator', schema: errorBody };
const exchangeNotFound = {
  description: 'The exchange does not exist, or you are not an operator',
  schema: errorBody,
};
const exchangeParams = z.object({ id: integer({ ge: 1 }) });
const bytes = {
  description: 'The stored bytes, as a download',
  media_type: 'application/octet-stream',
};

const common = { method: 'GET', auth: 'operator', any_host: true, tag: 'capture' } as const;

export const CAPTURES = {
  listCapturedRuns: endpoint({
    ...common,
    id: 'listCapturedRuns',
    path: '/capture/runs',
    summary:
      'Runs that match a query, captured, reported or both; newest first unless the query has another order',
    query: z.object({
      ...cursorFields(CURSOR_CHARACTERS),
      from: timestamp().nullish().describe('Only runs that began at this time or later'),
      to: timestamp().nullish().describe('Only runs that began before this time'),
      model: text({ max: MODEL_CHARACTERS }).nullish().describe('Only runs in which this model answered'),
      golden: flag().nullish().describe('true: only golden runs; false: only others'),
      served_by: literal(['student', 'upstream'])
        .nullish()
        .describe('Only runs in which the student answered a turn, or only runs in which the upstream did'),
      session: text({ max: ID_CHARACTERS }).nullish().describe('Only runs with this client session'),
      own: flag().nullish().describe('true: only runs without a parent run; false: only child runs'),
      q: runQueryField,
    }),
    replies: { 200: { description: 'A page of runs', schema: capturedRunPage }, 503: unavailable },
  }),
  listCapturedRunValues: endpoint({
    ...common,
    id: 'listCapturedRunValues',
    path: '/capture/run-values',
    summary:
      'Values of a field of the query language, with the number of runs for each: for completing a query',
    query: z.object(valueQueryFields),
    replies: { 200: { description: 'The values', schema: countedValues }, 503: unavailable },
  }),
  readCapturedRun: endpoint({
    ...common,
    id: 'readCapturedRun',
    path: '/capture/runs/{id}',
    summary:
      'A captured run as a conversation: what each turn added, thinking, calls and results. The id may be that of the captured or of the reported run',
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
    summary: "How the turns of a captured run used the provider's prompt cache, and the causes of misses",
    params: z.object({ id: text({ max: ID_CHARACTERS }) }),
    replies: {
      200: { description: 'Each turn, and the sum', schema: runCacheReply },
      404: runNotFound,
      503: unavailable,
    },
  }),
  sumCacheMisses: endpoint({
    ...common,
    id: 'sumCacheMisses',
    path: '/capture/cache',
    summary: "Cost of misses of the provider's prompt cache by cause, agent and day",
    query: z.object({
      days: integer({ ge: 1, le: FIGURE_DAYS_MAX })
        .default(30)
        .describe('UTC days, the present one included'),
      agent: text({ max: AGENT_CHARACTERS })
        .nullish()
        .describe(
          'Only turns of this agent, as `by_agent` names it. `by_agent` lists all agents in any case',
        ),
    }),
    replies: { 200: { description: 'The sum over the period', schema: cachePeriodReply }, 503: unavailable },
  }),
  searchCaptures: endpoint({
    ...common,
    id: 'searchCaptures',
    path: '/capture/search',
    summary: 'Full-text search over all captures: finds runs with all words, "phrases" and prefi*',
    query: z.object({
      ...cursorFields(CURSOR_CHARACTERS),
      q: text({ min: 1, max: TEXT_SEARCH_CHARACTERS }).describe(
        'Words in any script; `"two words"`: adjacent words; `pars*`: words with this beginning. Case and accents are ignored',
      ),
    }),
    replies: {
      200: { description: 'A page of runs, with the places that contain the words', schema: textHitPage },
      503: unavailable,
    },
  }),
  markCapturedRun: endpoint({
    id: 'markCapturedRun',
    method: 'POST',
    path: '/capture/runs/{id}/mark',
    auth: 'operator',
    tag: 'capture',
    summary: 'Marks a run of the list, with tags, a note and a score; the mark overrules the verdict',
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
    summary: 'The record of one captured exchange, with headers but without bodies',
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
    summary: 'Why the student did or did not serve a step: what was new in it, and both answers',
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
    summary: `Steps with a relegation decision among the last ${CAPTURE_ACTIVITY.exchanges} exchanges, newest first; a page may be short if few match a filter`,
    query: z.object({
      ...cursorFields(CURSOR_CHARACTERS),
      outcome: literal(['refused', 'compared', 'disagreed', 'served'])
        .nullish()
        .describe(
          '`refused`: the upstream served; `compared`: both answers are known; `disagreed`: both are known and differ; `served`: the student served',
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
    summary:
      'Traffic through the gateway in the last hours: counts, errors and latency, in total and over time',
    query: z.object({
      hours: integer({ ge: 1, le: CAPTURE_ACTIVITY.hours_max })
        .default(24)
        .describe('Number of hours before now'),
    }),
    replies: { 200: { description: 'The figures', schema: capturedActivity }, 503: unavailable },
  }),
  readTrafficFigures: endpoint({
    ...common,
    id: 'readTrafficFigures',
    path: '/capture/figures',
    summary:
      'Cost, tokens, cache share, latency and failed calls by model, agent, tool, tag, credential, note or day',
    query: z.object({
      by: literal(FIGURE_DIMENSIONS).default('model').describe('How the rows are grouped'),
      days: integer({ ge: 1, le: FIGURE_DAYS_MAX })
        .default(30)
        .describe('UTC days, the present one included'),
      model: text({ max: MODEL_CHARACTERS }).nullish().describe('Only turns of this model'),
      provider: text({ max: ID_CHARACTERS }).nullish().describe('Only exchanges of this upstream'),
      agent: text({ max: ID_CHARACTERS }).nullish().describe('Only exchanges of this client program'),
      tool: text({ max: ID_CHARACTERS }).nullish().describe('Only turns that called this tool'),
      note: text({ max: ID_CHARACTERS }).nullish().describe('Only exchanges with this note (`GW_NOTE`)'),
      tag: text({ max: ID_CHARACTERS }).nullish().describe('Only exchanges with this tag (`x-svc-tags`)'),
      credential: text({ max: ID_CHARACTERS })
        .nullish()
        .describe('Only exchanges with this credential fingerprint'),
    }),
    replies: { 200: { description: 'The figures', schema: figureReport }, 503: unavailable },
  }),
  readProviderLimits: endpoint({
    ...common,
    id: 'readProviderLimits',
    path: '/capture/limits',
    summary: 'Remaining rate limits and quotas of providers, by credential, and when they run out',
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
    summary:
      'Gives an agent variant of the student a name for people; the answers of the student do not change',
    body: z.object({
      agent: text({ min: 1, max: 200 }).describe('Id of the agent variant, as in the report'),
      name: text({ min: 1, max: AGENT_NAME_CHARACTERS })
        .nullable()
        .describe('null: removes the name, so that the first words of its prompt are shown again'),
    }),
    replies: {
      200: {
        description: 'The name that the agent variant has now',
        schema: z
          .object({
            agent: z.string().describe('Id of the agent variant, as in the report'),
            name: z.string().describe('Empty without a name'),
            is_named: z.boolean().describe('Whether an operator gave this name'),
          })
          .meta({ id: 'StudentAgentName' }),
      },
      404: {
        description: 'The agent variant or the student does not exist, or you are not an operator',
        schema: errorBody,
      },
    },
  }),
  readCaptureStats: endpoint({
    ...common,
    id: 'readCaptureStats',
    path: '/capture/stats',
    summary: "The gateway's stats, as in `/__gw/stats`",
    replies: {
      200: { description: 'The stats', schema: captureStats },
      404: { description: 'This process has no gateway, or you are not an operator', schema: errorBody },
    },
  }),
} as const;
