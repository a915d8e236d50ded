/**
 * `understudy alerts`: the alerts of a running service, over its API, as its operator. Main thread of the command line.
 */
import { readFile } from 'node:fs/promises';
import { text as readAll } from 'node:stream/consumers';
import type { z } from 'zod';
import { OWNER } from '../auth/owner.ts';
import { signUserToken } from '../auth/sign-token.ts';
import { type Config, loadConfig, loadOperatorConnection } from '../config.ts';
import { ALERT_ROUTES } from '../contract/alerts.ts';
import type { Endpoint } from '../contract/endpoint.ts';
import { type ApiAnswer, UnreachableApi } from '../mcp/tool-answer.ts';
import { readFlagsAndWords, refuseWords } from './flags.ts';
import { type CliIo, EXIT, UsageError } from './io.ts';
import { choosePalette, formatJson, layOutTable, makeHarmlessLine } from './terminal-text.ts';
import { secretOf } from './token-secret.ts';

const HELP = `Lists, makes, tests, switches and deletes the alerts of a running service.

Usage: understudy alerts list [--json] [--url URL]
       understudy alerts show ALERT [--json] [--url URL]
       understudy alerts create FILE [--json] [--url URL]
       understudy alerts test ALERT [--json] [--url URL]
       understudy alerts on|off|delete ALERT [--url URL]

  ALERT       the id, or the name if only one alert has it
  FILE        the body of POST /alerts, as JSON; - is standard input. Addresses of webhooks and secrets are not options,
              because other users of the machine can see the options of a process
  --url URL   address of the API; default: SVC_BASE_URL, otherwise the service on this machine
  --json      the API's answer

The operator's key is read from SVC_API_KEY. Without it, the command signs in as the owner with the secret in DATA_DIR.

Examples:
  understudy alerts list
  echo '{"name": "failed runs", "measure": "runs", "query": "status:failed,error", "threshold": 3,
    "destinations": [{"kind": "slack", "url": "https://hooks.slack.com/services/..."}]}' | understudy alerts create -
  understudy alerts test "failed runs"

Exit status: 0 done, 1 failed (also if a destination did not accept a test), 2 wrong use.
`;

/**
 * Time limit of one call. The call for a test waits for each destination, which may take ten
 * seconds.
 */
const CALL_MS = 30_000;
/** Lifetime of the token, enough for the few calls of one command. */
const TOKEN_S = 300;
const FILE_BYTES = 1 << 20;

type Reply<Name extends keyof typeof ALERT_ROUTES> = (typeof ALERT_ROUTES)[Name]['replies'] extends {
  200: { schema: infer Schema extends z.ZodType };
}
  ? z.output<Schema>
  : undefined;
type Alert = Reply<'readAlert'>;
type AlertEvent = Reply<'testAlert'>;

type Call = <Name extends keyof typeof ALERT_ROUTES>(
  name: Name,
  params?: Record<string, string>,
  input?: Record<string, unknown>,
) => Promise<Reply<Name>>;

/** A call that the API refused. The message is the text of the API's answer. */
class RefusedCall extends Error {}

/** Runs `understudy alerts`. @returns the exit status */
export async function runAlerts(argv: string[], io: CliIo): Promise<number> {
  const { values, words } = readFlagsAndWords(argv, { url: 'text', json: 'switch' });
  if (values.help === true) {
    await io.out(HELP);
    return EXIT.done;
  }
  const [action = '', what, ...more] = words;
  if (!Object.hasOwn(ACTIONS, action))
    throw new UsageError(`name the action: ${Object.keys(ACTIONS).join(', ')}`);
  if (action === 'list') refuseWords(words.slice(1));
  else if (what === undefined || what === '')
    throw new UsageError(
      `name ${action === 'create' ? 'a file' : 'the alert'}: understudy alerts ${action} …`,
    );
  refuseWords(more);
  try {
    const call = await connect(values.url);
    return await ACTIONS[action]!({ call, what: what ?? '', isJson: values.json === true, io });
  } catch (thrown) {
    if (!(thrown instanceof RefusedCall || thrown instanceof UnreachableApi)) throw thrown;
    io.err(`understudy: ${makeHarmlessLine(thrown.message)}\n`);
    return EXIT.failed;
  }
}

interface Asked {
  call: Call;
  what: string;
  isJson: boolean;
  io: CliIo;
}

const ACTIONS: Readonly<Record<string, (asked: Asked) => Promise<number>>> = {
  list: listAlerts,
  show: showAlert,
  create: createAlert,
  test: testAlert,
  on: (asked) => switchAlert(asked, true),
  off: (asked) => switchAlert(asked, false),
  delete: deleteAlert,
};

async function connect(url: string | undefined): Promise<Call> {
  const config = loadConfig({ listener: 'api' });
  const { base_url, api_key } = loadOperatorConnection(url, config);
  const { remoteApi } = await import('../mcp/remote-api.ts');
  const ask = remoteApi({
    base_url,
    api_key: api_key ?? (await signInAsOwner(config)),
    tenant: {},
    timeout_ms: CALL_MS,
    user_agent: 'understudy-cli',
  });
  return async (name, params = {}, input = {}) => {
    const endpoint: Endpoint = ALERT_ROUTES[name];
    const got = await ask(endpoint, params, input);
    if (got.status >= 300) throw new RefusedCall(describeRefusal(got));
    return got.body as Reply<typeof name>;
  };
}

/**
 * Signs a token of the owner with the secret in DATA_DIR.
 * @throws UsageError if an identity provider signs people in
 */
function signInAsOwner(config: Config): Promise<string> {
  if (config.auth.jwks_url !== null)
    throw new UsageError(
      'an identity provider signs people in (AUTH_JWKS_URL): set SVC_API_KEY to a key of the operator (SVC_KEYS)',
    );
  const lifetime = { lifetimeS: TOKEN_S, nowMs: Date.now() };
  return signUserToken(config.auth, secretOf(config), { ...OWNER, ...lifetime });
}

function describeRefusal({ status, body }: ApiAnswer): string {
  const { detail } = (body ?? {}) as { detail?: unknown };
  if (status === 404) return 'there is no such alert, or the credential is not the operator’s';
  if (typeof detail === 'string') return detail;
  if (!Array.isArray(detail)) return `the service answered with status ${status}`;
  return detail
    .map(({ loc, msg }: { loc: unknown[]; msg: string }) => `${loc.slice(1).join('.')}: ${msg}`)
    .join('; ');
}

async function listAlerts({ call, isJson, io }: Asked): Promise<number> {
  const answer = await call('listAlerts');
  if (isJson) await io.out(`${formatJson(answer, 2)}\n`);
  else if (answer.alerts.length === 0)
    await io.out('No alerts yet. To make one: understudy alerts create FILE\n');
  else {
    const columns = ['NAME', 'STATE', 'NOW', 'FIRES', 'NOTIFIES', 'ID'].map((title) => ({
      title,
      align: 'left' as const,
      max: COLUMN_WIDTH,
    }));
    const rows = answer.alerts.map((alert) =>
      [
        alert.name,
        sayState(alert),
        alert.state?.value == null ? '-' : String(alert.state.value),
        sayRule(alert),
        alert.destinations.map(({ target }) => target).join(', '),
        alert.id,
      ].map((text) => ({ text: makeHarmlessLine(text) })),
    );
    await io.out(layOutTable(columns, rows, Number.POSITIVE_INFINITY, choosePalette(io.has_color)));
  }
  return EXIT.done;
}

/** Maximum width of a cell. A longer cell is cut, because one long query would pad every line. */
const COLUMN_WIDTH = 70;

function sayState({ is_on, state }: Alert): string {
  if (!is_on) return 'off';
  if (state === null) return 'not checked yet';
  if (state.is_firing) return 'fires';
  return state.value === null ? 'not known' : 'quiet';
}

function sayRule({ measure, query, of_query, provider, fires, threshold, window_s }: Alert): string {
  const about = [
    query,
    measure === 'share' ? `of ${of_query || 'all'}` : '',
    provider,
    ['runs', 'share', 'cost_usd', 'dropped_copies'].includes(measure) ? `last ${window_s} s` : '',
  ].filter((words) => words !== '');
  return `${measure} ${fires} ${threshold}${about.length === 0 ? '' : ` (${about.join('; ')})`}`;
}

/**
 * Finds an alert by its id, or by its name if only one alert has the name.
 * @throws RefusedCall if no alert fits, or several have the name
 */
async function findAlert({ call, what }: Asked): Promise<Alert> {
  const { alerts } = await call('listAlerts');
  const byId = alerts.find(({ id }) => id === what);
  const named = alerts.filter(({ name }) => name === what);
  if (byId !== undefined) return byId;
  if (named.length === 1) return named[0]!;
  throw new RefusedCall(
    named.length === 0
      ? `there is no alert ${formatJson(what, 0)}; understudy alerts list shows all alerts`
      : `${named.length} alerts are called ${formatJson(what, 0)}: give the id of one`,
  );
}

async function showAlert(asked: Asked): Promise<number> {
  const { call, isJson, io } = asked;
  const alert = await findAlert(asked);
  const { events } = await call('listAlertEvents', { alert_id: alert.id }, { limit: 20 });
  if (isJson) {
    await io.out(`${formatJson({ ...alert, events }, 2)}\n`);
    return EXIT.done;
  }
  const { state, quiet } = alert;
  const lines = [
    `${alert.name}  ${alert.id}`,
    `  fires    ${sayRule(alert)}`,
    `  state    ${sayState(alert)}${state === null ? '' : ` since ${state.since}; checked ${state.looked_at}`}`,
    ...(state?.problem ? [`  problem  ${state.problem}`] : []),
    `  tells    ${alert.destinations.map(({ kind, target }) => `${kind} ${target}`).join(', ')}`,
    ...(quiet === null ? [] : [`  quiet    ${quiet.from} to ${quiet.to}, ${quiet.time_zone}`]),
    ...events.flatMap((event) => [
      `${event.at}  ${event.type}  ${event.value ?? '-'}`,
      ...event.deliveries.map((delivery) => `  ${sayDelivery(delivery)}`),
    ]),
  ];
  await io.out(`${lines.map(makeHarmlessLine).join('\n')}\n`);
  return EXIT.done;
}

function sayDelivery({ target, state, problem }: AlertEvent['deliveries'][number]): string {
  return `${target}: ${state}${problem === '' ? '' : `: ${problem}`}`;
}

async function createAlert({ call, what, isJson, io }: Asked): Promise<number> {
  const text = what === '-' ? await readAll(process.stdin) : await readFile(what, 'utf8');
  const place = what === '-' ? 'standard input' : what;
  if (text.length > FILE_BYTES) throw new RefusedCall(`${place} is longer than ${FILE_BYTES} characters`);
  const made = await call('createAlert', {}, parseObject(text, place));
  await io.out(isJson ? `${formatJson(made, 2)}\n` : `${made.id}\n`);
  return EXIT.done;
}

/** Parses the body of an alert. @throws RefusedCall if the text is not a JSON object */
function parseObject(text: string, place: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = null;
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>;
  throw new RefusedCall(`${place} is not a JSON object`);
}

async function testAlert(asked: Asked): Promise<number> {
  const { call, isJson, io } = asked;
  const { id } = await findAlert(asked);
  const event = await call('testAlert', { alert_id: id });
  if (isJson) await io.out(`${formatJson(event, 2)}\n`);
  else
    await io.out(
      `${event.deliveries.map((delivery) => makeHarmlessLine(sayDelivery(delivery))).join('\n')}\n`,
    );
  return event.deliveries.every(({ state }) => state === 'delivered') ? EXIT.done : EXIT.failed;
}

async function switchAlert(asked: Asked, is_on: boolean): Promise<number> {
  const { id, name } = await findAlert(asked);
  await asked.call('changeAlert', { alert_id: id }, { is_on });
  await asked.io.out(`${makeHarmlessLine(name)} is ${is_on ? 'on' : 'off'}\n`);
  return EXIT.done;
}

async function deleteAlert(asked: Asked): Promise<number> {
  const { id, name } = await findAlert(asked);
  await asked.call('deleteAlert', { alert_id: id });
  await asked.io.out(`${makeHarmlessLine(name)} is deleted\n`);
  return EXIT.done;
}
