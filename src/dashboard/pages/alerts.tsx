/** Alerts: what they watch, whom they notify, and whether the messages arrived. Browser. */
import { address, goTo, hrefOf } from '../core/address.ts';
import { call } from '../core/api.ts';
import type { Reply, RequestBody } from '../core/contract.ts';
import { formatNumber, formatShare, formatSpan } from '../core/format.ts';
import { formatUsd } from '../core/money.ts';
import { useResource } from '../core/resource.ts';
import { Badge, Email, PageHead, Panel, Time } from '../ui/basics.tsx';
import { ask, type Field, type FieldValues, Form } from '../ui/form.tsx';
import { act } from '../ui/notice.tsx';
import { Loaded } from '../ui/states.tsx';
import { type Column, Table } from '../ui/table.tsx';

type Alert = Reply<'GET /alerts'>['alerts'][number];
type AlertEvent = Reply<'GET /alerts/{alert_id}/events'>['events'][number];
type Delivery = AlertEvent['deliveries'][number];
type Rule = RequestBody<'POST /alerts'>;
type Destination = Rule['destinations'][number];

const EVERY_MS = 10_000;

const MEASURES: readonly [Alert['measure'], string][] = [
  ['runs', 'Runs that match'],
  ['share', 'Share of runs that match'],
  ['cost_usd', 'Cost of runs that match'],
  ['quota_left', 'Share left of provider limits'],
  ['not_ready', 'Service not ready (0 or 1)'],
  ['capture_faults', 'Capture faults'],
  ['indexing_behind_s', 'Seconds that the index is behind'],
  ['dropped_copies', 'Dropped copies'],
  ['disk_left', 'Share left of the disk'],
];
const KINDS: readonly [Destination['kind'], string][] = [
  ['slack', 'Slack webhook'],
  ['webhook', 'Signed webhook'],
  ['email', 'Mail'],
];
/** Metrics that are counted over runs. */
const OF_RUNS = ['runs', 'share', 'cost_usd'];
/** Metrics that are counted over a window of time. */
const OF_WINDOW = [...OF_RUNS, 'dropped_copies'];
const SHARES: ReadonlySet<string> = new Set(['share', 'quota_left', 'disk_left']);

export function AlertsPage() {
  const { selection } = address.value;
  return selection === null ? <AlertList /> : <AlertDetail key={selection} alert_id={selection} />;
}

function AlertList() {
  const list = useResource('alerts', (signal) => call('GET /alerts', { signal }), { every_ms: EVERY_MS });
  const create = (values: FieldValues) =>
    act(async () => {
      const destinations = [readDestination(values)];
      const made = await call('POST /alerts', { body: { ...readRule(values), destinations } });
      goTo('alerts', made.id);
    }, 'The alert was made. Send a test to see whether it arrives.');
  return (
    <>
      <PageHead
        title="Alerts"
        sub="Each alert is checked once a minute. It sends one message when the value crosses the threshold, and another when the value returns."
      />
      <Panel>
        <Loaded from={list}>
          {({ alerts }) => (
            <Table
              label="Alerts"
              columns={COLUMNS}
              rows={alerts}
              keyOf={({ id }) => id}
              empty="No alerts yet."
              how={<a href="/docs/guides/alerts">What alerts watch</a>}
            />
          )}
        </Loaded>
      </Panel>
      <Panel title="New alert">
        <Form
          fields={[...ruleFields(null), ...destinationFields(list.data.value?.has_mail ?? false)]}
          button="Make the alert"
          submit={create}
        />
      </Panel>
    </>
  );
}

const COLUMNS: readonly Column<Alert>[] = [
  { title: 'Name', show: ({ id, name }) => <a href={hrefOf('alerts', id)}>{name}</a>, kind: 'name' },
  { title: 'State', show: (alert) => <State alert={alert} /> },
  { title: 'Fires', show: sayRule, kind: 'wide' },
  { title: 'Now', show: ({ measure, state }) => formatFigure(measure, state?.value ?? null), kind: 'number' },
  { title: 'Notifies', show: ({ destinations }) => destinations.map(showTarget), kind: 'name' },
];

function showTarget({ target }: Alert['destinations'][number], at: number) {
  return (
    <div key={at}>
      <Email email={target} />
    </div>
  );
}

function State({ alert: { is_on, state } }: { alert: Alert }) {
  if (!is_on) return <Badge tone="off">off</Badge>;
  if (state === null) return <Badge>not checked yet</Badge>;
  if (state.is_firing) return <Badge tone="bad">fires</Badge>;
  return state.value === null ? <Badge tone="warn">not known</Badge> : <Badge tone="good">quiet</Badge>;
}

function sayRule({ measure, query, of_query, provider, fires, threshold, window_s }: Alert): string {
  const words = MEASURES.find(([name]) => name === measure)![1];
  const isOfRuns = OF_RUNS.includes(measure);
  const matching = isOfRuns ? ` ${query === '' ? 'any query' : `“${query}”`}` : '';
  const of = measure === 'share' && of_query !== '' ? `, of those that match “${of_query}”,` : '';
  const ofProvider = measure === 'quota_left' && provider !== '' ? ` of ${provider}` : '';
  const within = isOfRuns ? `, within ${formatSpan(window_s * 1_000)}` : '';
  const bound = formatFigure(measure, threshold).replace(' ', '\u00a0');
  return `${words}${ofProvider}${matching}${of}: ${fires} ${bound}${within}`;
}

function formatFigure(measure: Alert['measure'], value: number | null): string {
  if (value === null) return '–';
  if (SHARES.has(measure)) return formatShare(value, 1);
  return measure === 'cost_usd' ? formatUsd(value) : formatNumber(value);
}

function AlertDetail({ alert_id }: { alert_id: string }) {
  const alert = useResource(
    `alert ${alert_id}`,
    (signal) => call('GET /alerts/{alert_id}', { params: { alert_id }, signal }),
    { every_ms: EVERY_MS },
  );
  const history = useResource(
    `events of alert ${alert_id}`,
    (signal) =>
      call('GET /alerts/{alert_id}/events', { params: { alert_id }, query: { limit: 100 }, signal }),
    { every_ms: EVERY_MS },
  );
  const refresh = () => {
    alert.refresh();
    history.refresh();
  };
  return (
    <>
      <nav class="crumbs" aria-label="Breadcrumb">
        <a href={hrefOf('alerts')}>Alerts</a>
        <span aria-hidden="true">/</span>
        <span>{alert.data.value?.name ?? alert_id}</span>
      </nav>
      <Loaded from={alert} lines={6}>
        {(known) => <AlertPanels alert={known} refresh={refresh} />}
      </Loaded>
      <Panel title="History" sub="The last 100 events. A message that fails is repeated for a day.">
        <Loaded from={history}>
          {({ events }) => (
            <Table
              label="History"
              columns={eventColumns(alert.data.value?.measure ?? 'runs')}
              rows={events}
              keyOf={({ id }) => id}
              empty="This alert has sent no message yet."
            />
          )}
        </Loaded>
      </Panel>
    </>
  );
}

function AlertPanels({ alert, refresh }: { alert: Alert; refresh: () => void }) {
  const actions = alertActions(alert, refresh);
  const { state } = alert;
  return (
    <>
      <PageHead title={alert.name} sub={sayRule(alert)}>
        <button type="button" class="main" onClick={actions.test}>
          Send a test
        </button>
        <button type="button" class="plain" onClick={actions.edit}>
          Edit
        </button>
        <button type="button" class="plain" onClick={actions.toggle}>
          {alert.is_on ? 'Switch off' : 'Switch on'}
        </button>
        <button type="button" class="plain danger" onClick={actions.remove}>
          Delete
        </button>
      </PageHead>
      <Panel title="Now" actions={<State alert={alert} />}>
        {state === null ? (
          <p class="faint">This alert was not checked yet.</p>
        ) : (
          <p>
            <b>{state.value === null ? 'Not known' : formatFigure(alert.measure, state.value)}</b>, checked{' '}
            <Time at={state.looked_at} />. The alert {state.is_firing ? 'fired' : 'became quiet'}{' '}
            <Time at={state.since} />.{' '}
            {state.problem === '' ? null : <span class="faint">{state.problem}</span>}
          </p>
        )}
        <p class="faint">
          {alert.interval_s === 0
            ? 'It sends a message about each crossing.'
            : `It sends at most one message about a crossing in ${formatSpan(alert.interval_s * 1_000)}.`}
          {alert.quiet === null
            ? ''
            : ` It sends none from ${alert.quiet.from} to ${alert.quiet.to} (${alert.quiet.time_zone}).`}
        </p>
      </Panel>
      <Panel title="Destinations">
        <Table
          label="Destinations"
          columns={[
            { title: 'Kind', show: ({ kind }) => KINDS.find(([name]) => name === kind)![1] },
            { title: 'Where', show: ({ target }) => target, kind: 'wide' },
            {
              title: '',
              kind: 'acts',
              show: ({ id, target }) =>
                alert.destinations.length === 1 ? null : (
                  <button
                    type="button"
                    class="quiet"
                    aria-label={`Remove ${target}`}
                    onClick={() => actions.removeDestination(id)}
                  >
                    Remove
                  </button>
                ),
            },
          ]}
          rows={alert.destinations}
          keyOf={({ id }) => id}
          empty="No destinations."
        />
        <button type="button" class="plain more" onClick={actions.addDestination}>
          Add a destination
        </button>
      </Panel>
    </>
  );
}

function alertActions(alert: Alert, refresh: () => void) {
  const params = { alert_id: alert.id };
  const change = async (body: RequestBody<'PATCH /alerts/{alert_id}'>, done: string) => {
    await act(() => call('PATCH /alerts/{alert_id}', { params, body }), done);
    refresh();
  };
  // The address and the secret are left out, so that they stay unchanged.
  const kept = () => alert.destinations.map(({ id, kind }) => ({ id, kind }));
  return {
    test: async () => {
      let failed: Delivery[] = [];
      await act(async () => {
        const { deliveries } = await call('POST /alerts/{alert_id}/test', { params });
        failed = deliveries.filter(({ state }) => state !== 'delivered');
        if (failed.length > 0)
          throw new Error(failed.map(({ target, problem }) => `${target}: ${problem}`).join('; '));
      }, 'Every destination accepted the test.');
      refresh();
    },
    edit: async () => {
      const values = await ask({ heading: `Edit ${alert.name}`, fields: ruleFields(alert), button: 'Save' });
      if (values !== null) await change(readRule(values), 'Saved.');
    },
    toggle: () => change({ is_on: !alert.is_on }, alert.is_on ? 'The alert is off.' : 'The alert is on.'),
    addDestination: async () => {
      const values = await ask({
        heading: 'Add a destination',
        fields: destinationFields(true),
        button: 'Add',
      });
      if (values === null) return;
      await change({ destinations: [...kept(), readDestination(values)] }, 'Added.');
    },
    removeDestination: (gone: string) =>
      change({ destinations: kept().filter(({ id }) => id !== gone) }, 'Removed.'),
    remove: async () => {
      const sure = await ask({
        heading: `Delete ${alert.name}?`,
        text: 'Its history is deleted too.',
        button: 'Delete',
        is_dangerous: true,
      });
      if (sure === null) return;
      const isGone = await act(() => call('DELETE /alerts/{alert_id}', { params }), 'The alert was deleted.');
      if (isGone) goTo('alerts');
    },
  };
}

const eventColumns = (measure: Alert['measure']): readonly Column<AlertEvent>[] => [
  { title: 'When', show: ({ at }) => <Time at={at} /> },
  {
    title: 'What',
    show: ({ type }) => (
      <Badge tone={type === 'fired' ? 'bad' : type === 'test' ? 'plain' : 'good'}>{type}</Badge>
    ),
  },
  { title: 'Value', show: ({ value }) => formatFigure(measure, value), kind: 'number' },
  {
    title: 'Deliveries',
    kind: 'wide',
    show: ({ deliveries }) => (
      <>
        {deliveries.map((delivery) => (
          <div key={delivery.delivery_id}>{sayDelivery(delivery)}</div>
        ))}
      </>
    ),
  },
];

function sayDelivery({ target, state, attempts, problem }: Delivery): string {
  const words = state === 'waiting' ? 'waits' : state === 'delivered' ? 'delivered' : 'given up';
  return `${target}: ${words}${attempts > 1 ? `, ${attempts} attempts` : ''}${problem === '' ? '' : `: ${problem}`}`;
}

/** Lists the fields of the form of an alert. @param alert provides the values in the fields; null: a new alert */
function ruleFields(alert: Alert | null): Field[] {
  const { quiet = null } = alert ?? {};
  return [
    { name: 'name', label: 'Name', required: true, maxlength: 128, value: alert?.name ?? '' },
    {
      name: 'measure',
      label: 'What it watches',
      type: 'select',
      options: MEASURES,
      value: alert?.measure ?? 'runs',
    },
    {
      name: 'query',
      label: 'Query',
      value: alert?.query ?? 'status:failed,error',
      hint: 'Selects the runs; empty: all runs',
      when: ['measure', OF_RUNS],
      maxlength: 2_000,
    },
    {
      name: 'of_query',
      label: 'As a share of',
      value: alert?.of_query ?? '',
      hint: 'Also a query; empty: all runs',
      when: ['measure', ['share']],
      maxlength: 2_000,
    },
    {
      name: 'provider',
      label: 'Provider',
      value: alert?.provider ?? '',
      hint: 'Empty: the provider with the least left',
      maxlength: 64,
      when: ['measure', ['quota_left']],
    },
    {
      name: 'fires',
      label: 'Fires',
      type: 'select',
      options: [
        ['above', 'above the threshold'],
        ['below', 'below the threshold'],
      ],
      value: alert?.fires ?? 'above',
    },
    {
      name: 'threshold',
      label: 'Threshold',
      required: true,
      value: String(alert?.threshold ?? 0),
      hint: 'Shares are from 0 to 1, costs in dollars',
    },
    {
      name: 'window',
      label: 'Window, in minutes',
      value: String((alert?.window_s ?? 3_600) / 60),
      when: ['measure', OF_WINDOW],
    },
    {
      name: 'interval',
      label: 'Minutes between messages',
      value: String((alert?.interval_s ?? 3_600) / 60),
    },
    {
      name: 'quiet',
      label: 'Quiet hours',
      placeholder: '22:00-07:00',
      value: quiet === null ? '' : `${quiet.from}-${quiet.to}`,
      hint: 'Empty: messages at any time',
    },
    {
      name: 'time_zone',
      label: 'Time zone of the quiet hours',
      value: quiet?.time_zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone,
    },
  ];
}

function destinationFields(hasMail: boolean): Field[] {
  return [
    {
      name: 'kind',
      label: 'Notify by',
      type: 'select',
      options: KINDS,
      ...(hasMail ? {} : { hint: 'Mail needs ALERT_SMTP_URL' }),
    },
    {
      name: 'url',
      label: 'Address of the webhook',
      placeholder: 'https://hooks.slack.com/services/…',
      maxlength: 2_000,
      hint: 'Kept secret: only its host is shown',
      when: ['kind', ['slack', 'webhook']],
    },
    {
      name: 'secret',
      label: 'Secret of a signed webhook',
      type: 'password',
      maxlength: 200,
      hint: '16 characters or more',
      when: ['kind', ['webhook']],
    },
    {
      name: 'to',
      label: 'Mail addresses, separated by commas',
      placeholder: 'ops@example.com',
      when: ['kind', ['email']],
    },
  ];
}

function readRule(values: FieldValues): Omit<Rule, 'destinations'> {
  const { name = '', measure, query = '', of_query = '', provider = '' } = values;
  const { fires, threshold = '', quiet = '' } = values;
  const [from = '', to = ''] = quiet.split(/\s*[-–]\s*/);
  return {
    name,
    measure: measure as Alert['measure'],
    query,
    of_query,
    provider,
    fires: fires as Alert['fires'],
    // The API explains what is wrong with a text that is not a number.
    threshold: threshold as unknown as number,
    window_s: inSeconds(values.window),
    interval_s: inSeconds(values.interval),
    quiet: quiet.trim() === '' ? null : { from: from.trim(), to, time_zone: values.time_zone ?? 'UTC' },
  };
}

/**
 * Converts minutes to seconds; an empty text stands for an hour. Returns a text that is not a number unchanged, because the
 * API explains what is wrong with it.
 */
function inSeconds(minutes = ''): number {
  if (minutes.trim() === '') return 3_600;
  const seconds = Math.round(Number(minutes) * 60);
  return Number.isNaN(seconds) ? (minutes as unknown as number) : seconds;
}

function readDestination({ kind, url = '', secret = '', to = '' }: FieldValues): Destination {
  if (kind === 'email') return { kind, to: to.split(',').map((part) => part.trim()) };
  if (kind === 'webhook') return { kind, url: url.trim(), secret };
  return { kind: 'slack', url: url.trim() };
}
