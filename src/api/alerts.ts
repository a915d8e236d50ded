/**
 * Handlers of `contract/alerts.ts`. Answers contain only the host of a webhook's address. Server
 * threads.
 */
import type { z } from 'zod';
import type { AlertSender } from '../alerts/alert-outbox.ts';
import { type AlertTargets, TargetError } from '../alerts/alert-targets.ts';
import type { ALERT_ROUTES } from '../contract/alerts.ts';
import { jsonReply } from '../contract/route.ts';
import { valueViolation } from '../contract/violation.ts';
import {
  ALERT_BOUNDS,
  type AlertDestination,
  type AlertEvent,
  type AlertRow,
  type AlertRule,
  type DeliveryNote,
  nameTarget,
  tellNews,
} from '../domain/alert.ts';
import { isTimeZone } from '../domain/quiet-hours.ts';
import { parseRunQuery } from '../domain/run-query/parse.ts';
import { RunQueryError } from '../domain/run-query/run-query.ts';
import { CatalogueError } from '../errors.ts';
import { systemClock } from '../std/clock.ts';
import { newUlid, ulidAt } from '../std/id.ts';
import { makeEvent } from '../storage/accounts/alerts.ts';
import type { AccountReads, Accounts } from '../storage/ports/accounts.ts';
import type { OperatorHandlersOf } from './operator-guard.ts';
import { describeOperator } from './operators.ts';

export interface AlertServices {
  accounts: Accounts;
  /** The organization of the captures (GW_ORG); null: no organization. */
  org_id: string | null;
  sender: Pick<AlertSender, 'send'>;
  targets: Pick<AlertTargets, 'check'>;
  /** Whether a mail server is configured. */
  has_mail: boolean;
}

type Given = z.output<(typeof ALERT_ROUTES)['changeAlert']['body']>;
type GivenDestination = NonNullable<Given['destinations']>[number];

const PRIVATE: readonly (readonly [string, string])[] = [['cache-control', 'no-store']];

const DEFAULTS: Omit<AlertRule, 'name' | 'measure' | 'threshold' | 'destinations'> = {
  is_on: true,
  query: '',
  of_query: '',
  provider: '',
  fires: 'above',
  window_s: 3_600,
  quiet: null,
  interval_s: 3_600,
};

/** Fields that have no default: the body of a new alert must contain them. */
const NAMELESS = { name: undefined, measure: undefined, threshold: undefined };

export function alertHandlers({
  accounts,
  org_id: owner,
  sender,
  targets,
  has_mail,
}: AlertServices): OperatorHandlersOf<typeof ALERT_ROUTES> {
  const org_id = owner ?? '';
  const need = (accounts: AccountReads, id: string): AlertRow => {
    const found = accounts.alerts.find(org_id, id);
    if (found === undefined) throw new CatalogueError('not_found');
    return found;
  };
  const answer = (alert: AlertRow) => jsonReply(200, showAlert(accounts, alert), PRIVATE);
  type Asking = Pick<
    Parameters<OperatorHandlersOf<typeof ALERT_ROUTES>['createAlert']>[0],
    'operator' | 'request'
  >;
  const changeBy = ({ operator, request }: Asking) => {
    const now_ms = systemClock.wallMs();
    const { actor, log } = describeOperator(accounts, operator, request.address, now_ms);
    return { actor, now_ms, log: owner ?? log ?? '' };
  };
  return {
    listAlerts: async () => {
      const alerts = accounts.alerts.list(org_id).map((alert) => showAlert(accounts, alert));
      return jsonReply(200, { alerts, has_mail }, PRIVATE);
    },
    createAlert: async ({ body, ...asking }) => {
      const change = changeBy(asking);
      const at = new Date(change.now_ms).toISOString();
      const destinations = readDestinations(body.destinations, [], targets);
      const rule = joinRule({ ...DEFAULTS, ...NAMELESS, destinations }, body);
      const alert: AlertRow = {
        ...rule,
        id: `alr_${ulidAt(change.now_ms)}`,
        org_id,
        created_at: at,
        updated_at: at,
      };
      await accounts.transact((tx) => {
        if (tx.alerts.list(org_id).length >= ALERT_BOUNDS.alerts)
          throw new CatalogueError('conflict', `${ALERT_BOUNDS.alerts} alerts exist: delete one first`);
        tx.alerts.put(alert, change);
      });
      return answer(alert);
    },
    readAlert: async ({ params }) => answer(need(accounts, params.alert_id)),
    changeAlert: async ({ params, body, ...asking }) => {
      const change = changeBy(asking);
      const alert = await accounts.transact((tx) => {
        const before = need(tx, params.alert_id);
        const destinations =
          body.destinations === undefined
            ? before.destinations
            : readDestinations(body.destinations, before.destinations, targets);
        const rule = joinRule({ ...before, destinations }, body);
        const updated_at = new Date(change.now_ms).toISOString();
        const { id, created_at } = before;
        const after: AlertRow = { ...rule, id, org_id, created_at, updated_at };
        tx.alerts.put(after, change);
        return after;
      });
      return answer(alert);
    },
    deleteAlert: async ({ params, ...asking }) => {
      const change = changeBy(asking);
      const isGone = await accounts.transact((tx) =>
        tx.alerts.remove({ org_id, id: params.alert_id }, change),
      );
      if (!isGone) throw new CatalogueError('not_found');
      return { status: 204, headers: [], body: '' };
    },
    testAlert: async ({ params }) => {
      const alert = need(accounts, params.alert_id);
      return jsonReply(200, await sendTest({ accounts, sender }, alert), PRIVATE);
    },
    listAlertEvents: async ({ params, query: { limit, cursor } }) => {
      const alert = need(accounts, params.alert_id);
      if (cursor && !/^ale_[0-9A-Z]{26}$/.test(cursor))
        throw valueViolation(['query', 'cursor'], 'not a cursor of this list', cursor);
      const found = accounts.alerts.listEvents(alert, { limit: limit + 1, before: cursor || null });
      const events = found.slice(0, limit);
      const next_cursor = found.length > limit ? events.at(-1)!.id : null;
      return jsonReply(200, { events, next_cursor }, PRIVATE);
    },
  };
}

function showAlert(accounts: AccountReads, alert: AlertRow): object {
  const { org_id: _of, destinations, ...shown } = alert;
  const state = accounts.alerts.findState(alert);
  return {
    ...shown,
    destinations: destinations.map((to) => ({ id: to.id, kind: to.kind, target: nameTarget(to) })),
    state:
      state === null
        ? null
        : {
            is_firing: state.is_firing,
            since: new Date(state.since_ms).toISOString(),
            value: state.value,
            looked_at: new Date(state.looked_ms).toISOString(),
            problem: state.problem,
          },
  };
}

/**
 * Tries each destination once. Records the outcome in the alert's history, unless the alert was deleted in the
 * meantime.
 */
async function sendTest(
  { accounts, sender }: Pick<AlertServices, 'accounts' | 'sender'>,
  alert: AlertRow,
): Promise<AlertEvent> {
  const nowMs = systemClock.wallMs();
  const event = makeEvent(alert, 'test', accounts.alerts.findState(alert)?.value ?? null, nowMs);
  const news = tellNews(alert, event);
  const deliveries = await Promise.all(
    event.deliveries.map(async (note, at): Promise<DeliveryNote> => {
      const message = { delivery_id: note.delivery_id, news, sent_ms: nowMs };
      const { is_delivered, problem } = await sender.send(alert.destinations[at]!, message);
      const ended_at = new Date(systemClock.wallMs()).toISOString();
      return { ...note, state: is_delivered ? 'delivered' : 'given_up', attempts: 1, problem, ended_at };
    }),
  );
  const told = { ...event, deliveries };
  await accounts.transact((tx) => {
    if (tx.alerts.find(alert.org_id, alert.id) !== undefined) tx.alerts.addEvent(alert, told);
  });
  return told;
}

/**
 * Makes a rule from `base` and the fields of a body. The destinations are those of `base`.
 * @param base may have other fields, which are left out
 * @throws SchemaViolation as {@link checkRule} does
 */
function joinRule(base: { [Name in keyof AlertRule]: AlertRule[Name] | undefined }, given: Given): AlertRule {
  const of = <Name extends keyof Omit<AlertRule, 'destinations'>>(name: Name): AlertRule[Name] =>
    (given[name] ?? base[name]) as AlertRule[Name];
  const rule: AlertRule = {
    name: of('name'),
    is_on: of('is_on'),
    measure: of('measure'),
    query: of('query'),
    of_query: of('of_query'),
    provider: of('provider'),
    fires: of('fires'),
    threshold: of('threshold'),
    window_s: of('window_s'),
    quiet: given.quiet === undefined ? base.quiet! : given.quiet,
    interval_s: of('interval_s'),
    destinations: base.destinations!,
  };
  checkRule(rule);
  return rule;
}

/** Checks what the schema cannot. @throws SchemaViolation for a faulty query, and for an unknown time zone */
function checkRule({ query, of_query, quiet }: AlertRule): void {
  for (const [field, words] of Object.entries({ query, of_query })) {
    try {
      parseRunQuery(words);
    } catch (thrown) {
      if (!(thrown instanceof RunQueryError)) throw thrown;
      throw valueViolation(['body', field], thrown.message, words);
    }
  }
  if (quiet !== null && !isTimeZone(quiet.time_zone))
    throw valueViolation(['body', 'quiet', 'time_zone'], 'there is no such time zone', quiet.time_zone);
}

/**
 * Makes destinations from those of a body. Fields that a destination of the body omits are taken from the known
 * destination with the same id.
 * @throws SchemaViolation for a faulty or unknown destination; the violation quotes neither addresses nor secrets
 */
function readDestinations(
  given: readonly GivenDestination[],
  known: readonly AlertDestination[],
  targets: AlertServices['targets'],
): AlertDestination[] {
  const taken = new Set<string>();
  return given.map((destination, at) => {
    const before = known.find(({ id }) => id === destination.id && !taken.has(id));
    if (destination.id !== undefined && before === undefined)
      throw valueViolation(
        ['body', 'destinations', at, 'id'],
        'the alert has no such destination, or its id is given twice',
        destination.id,
      );
    const read = readDestination(destination, before, at, targets);
    taken.add(read.id);
    return read;
  });
}

function readDestination(
  { kind, ...given }: GivenDestination,
  before: AlertDestination | undefined,
  at: number,
  targets: AlertServices['targets'],
): AlertDestination {
  const id = before?.id ?? `dst_${newUlid()}`;
  const refuse = (field: string, reason: string) =>
    valueViolation(['body', 'destinations', at, field], reason, null);
  if (kind === 'email') {
    const to = given.to ?? before?.to ?? [];
    if (to.length === 0) throw refuse('to', 'mail needs a receiver');
    return { id, kind, url: '', secret: '', to };
  }
  const url = given.url ?? before?.url ?? '';
  const fault = findAddressFault(url, targets);
  if (fault !== null) throw refuse('url', fault);
  if (kind === 'slack') return { id, kind, url, secret: '', to: [] };
  const secret = given.secret ?? before?.secret ?? '';
  const { min } = ALERT_BOUNDS.secret_characters;
  if (secret.length < min) throw refuse('secret', `a signing secret must have at least ${min} characters`);
  return { id, kind, url, secret, to: [] };
}

/**
 * Describes what is wrong with the address of a webhook, without quoting the address; null: no
 * error was found.
 */
function findAddressFault(text: string, targets: AlertServices['targets']): string | null {
  if (!URL.canParse(text)) return 'a webhook needs an address, a complete URL';
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    return 'the address must begin with http:// or https://';
  if (url.username !== '' || url.password !== '') return 'the address must not contain credentials';
  try {
    targets.check(url.hostname);
    return null;
  } catch (thrown) {
    if (thrown instanceof TargetError) return thrown.message;
    throw thrown;
  }
}
