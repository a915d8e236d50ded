/** Overview: what the organization used, and how to begin where it has not. Browser. */
import { make, makeChart, makeHead, makeMeter, makePanel, makeSnippet } from './elements.js';
import { firstCalls, gatewayAddress } from './lists.js';
import { call, withQuery } from './session.js';

const number = new Intl.NumberFormat();

export async function fillOverview(page, { org, server }) {
  const [stats, usage, meter] = await Promise.all([
    call('GET', withQuery('/usage/stats', { org_id: org.id })),
    call('GET', withQuery('/usage/', { org_id: org.id, days: 30 })),
    call('GET', withQuery('/billing/intervention-usage', { org_id: org.id })),
  ]);
  const { totals, series } = usage;
  const card = (value, text, href) =>
    make(
      href ? 'a' : 'div',
      { class: 'card', href },
      make('b', {}, number.format(value)),
      make('span', {}, text),
    );
  const days = (field) => series.map((day) => ({ date: day.date, value: day[field] }));
  page.append(makeHead('Overview', 'The last 30 days, at most a second old.'));
  const isUnused = totals.runs + totals.retrievals + totals.evaluations + totals.traces === 0;
  if (isUnused) page.append(makeBeginning(stats, server));
  page.append(
    make(
      'div',
      { class: 'cards' },
      card(totals.runs, 'runs'),
      card(totals.steps, 'steps scored'),
      card(totals.injections, 'interventions'),
      card(totals.retrievals, 'retrievals'),
      card(totals.traces, 'traces'),
      card(totals.tokens, 'tokens reported'),
      card(stats.key_count, stats.key_count === 1 ? 'API key' : 'API keys', '#keys'),
      card(stats.member_count, stats.member_count === 1 ? 'member' : 'members', '#members'),
    ),
    makeMonth(meter),
  );
  if (!isUnused)
    page.append(
      make(
        'div',
        { class: 'charts' },
        makeChart('Steps a day', days('steps')),
        makeChart('Interventions a day', days('injections')),
        makeChart('Runs a day', days('runs')),
        makeChart('Retrievals a day', days('retrievals')),
      ),
    );
}

/** This month's interventions against the plan. */
export function makeMonth({ used, cap, period_end }) {
  const until = new Date(period_end).toLocaleDateString(undefined, {
    day: 'numeric',
    month: 'long',
    timeZone: 'UTC',
  });
  const words =
    cap === null
      ? `${number.format(used)} so far; this plan has no cap.`
      : `${number.format(used)} of ${number.format(cap)}. Counting starts again on ${until} (UTC).`;
  return makePanel(
    'Interventions this month',
    cap === null ? null : makeMeter(used, cap, 'Interventions this month, of the plan’s cap'),
    make('p', {}, words),
    cap !== null && used >= cap
      ? make('p', { class: 'alarm' }, 'The cap is reached: retrieval answers with an empty list until then.')
      : null,
  );
}

function makeBeginning({ key_count }, server) {
  const gateway = gatewayAddress(server);
  return makePanel(
    'Begin here',
    make(
      'ol',
      { class: 'steps' },
      gateway === null
        ? null
        : make(
            'li',
            {},
            make('b', {}, 'Point an agent at the gateway.'),
            ' It keeps its own provider key; requests pass through byte for byte and are kept to look at.',
            makeSnippet(`export ANTHROPIC_BASE_URL=${gateway}`),
          ),
      make(
        'li',
        {},
        make('b', {}, key_count === 0 ? 'Make an API key' : 'Take an API key'),
        ' under ',
        make('a', { href: '#keys' }, 'API keys'),
        '. It is shown once.',
      ),
      make(
        'li',
        {},
        make('b', {}, 'Log a run.'),
        ' Each step is answered with its scores, and the run shows under ',
        make('a', { href: '#live' }, 'Live'),
        '.',
        makeSnippet(firstCalls('svc_live_…')),
      ),
      make(
        'li',
        {},
        make('b', {}, 'Hand in traces, ask for patterns.'),
        ' The ',
        make('a', { href: '/docs', target: '_blank' }, 'API reference'),
        ' has every route.',
      ),
    ),
  );
}
