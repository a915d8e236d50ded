/** The dashboard's sections: each fills the page for the chosen organization. Browser. */
import { make, makeButton, makeChart, makeForm, makeTable } from './elements.js';
import { call, readEvents, withQuery } from './session.js';

const number = new Intl.NumberFormat();
export const when = (time) => (time === null ? 'never' : new Date(time).toLocaleString());
const title = (text) => make('h2', {}, text);
/** Events of the live stream that stay on the page. */
const LIVE_ROWS = 200;

async function showOverview(page, { org }) {
  const [stats, usage, meter] = await Promise.all([
    call('GET', withQuery('/usage/stats', { org_id: org.id })),
    call('GET', withQuery('/usage/', { org_id: org.id, days: 30 })),
    call('GET', withQuery('/billing/intervention-usage', { org_id: org.id })),
  ]);
  const card = (value, text) => make('div', { class: 'card' }, make('b', {}, value), make('span', {}, text));
  const cap = meter.cap === null ? 'no cap' : `of ${number.format(meter.cap)}`;
  page.append(
    make(
      'div',
      { class: 'cards' },
      card(number.format(meter.used), `interventions this month, ${cap}`),
      card(number.format(usage.totals.runs), 'runs in 30 days'),
      card(number.format(usage.totals.steps), 'steps scored'),
      card(number.format(usage.totals.retrievals), 'retrievals'),
      card(number.format(usage.totals.traces), 'traces distilled'),
      card(number.format(stats.key_count), 'keys'),
      card(number.format(stats.member_count), 'members'),
    ),
    title('Steps a day'),
    makeChart(usage.series.map(({ date, steps }) => ({ label: date, value: steps }))),
    title('Interventions a day'),
    makeChart(usage.series.map(({ date, injections }) => ({ label: date, value: injections }))),
  );
}

async function showLive(page, { org, signal }) {
  const body = make('tbody');
  const head = ['Time', 'Event', 'Run', 'What'].map((text) => make('th', { scope: 'col' }, text));
  const state = make('p', { class: 'empty' }, 'Waiting for events…');
  page.append(title('Live'), state, make('table', {}, make('thead', {}, make('tr', {}, head)), body));
  for await (const { event, data } of readEvents(
    withQuery('/v1/monitor/stream', { org_id: org.id }),
    signal,
  )) {
    state.hidden = true;
    const fired = data.fired?.length > 0 ? data.fired.join(', ') : null;
    const what =
      fired ??
      data.failure_type ??
      data.outcome ??
      data.task ??
      data.situation ??
      (data.step_index === undefined ? '' : `step ${data.step_index}`);
    body.prepend(
      make(
        'tr',
        {},
        make('td', {}, new Date(data.at ?? Date.now()).toLocaleTimeString()),
        make('td', {}, event),
        make('td', { class: 'wide' }, data.run_id ?? ''),
        make('td', { class: fired ? 'fired wide' : 'wide' }, String(what)),
      ),
    );
    while (body.rows.length > LIVE_ROWS) body.lastChild.remove();
  }
  state.hidden = false;
  state.textContent = 'The stream has ended. Open this section again to go on.';
}

async function showProjects(page, { org, act }) {
  const projects = await call('GET', withQuery('/projects/', { org_id: org.id, limit: 200 }));
  const create = ({ name }) => act(() => call('POST', withQuery('/projects/', { org_id: org.id }), { name }));
  const rename = (project) => {
    const name = prompt('New name', project.name);
    if (name) act(() => call('PATCH', `/projects/${project.id}`, { name }));
  };
  const remove = (project) => {
    if (confirm(`Delete ${project.name} and revoke its ${project.key_count} keys?`))
      act(() => call('DELETE', `/projects/${project.id}`));
  };
  page.append(
    title('Projects'),
    makeForm([['name', 'Name', { required: true, maxlength: 100 }]], 'Create', create),
    makeTable(
      [
        ['Name', (one) => one.name, 'wide'],
        ['Id', (one) => make('code', {}, one.id)],
        ['Keys', (one) => String(one.key_count), 'number'],
        ['Made', (one) => when(one.created_at)],
        ['', (one) => [makeButton('Rename', () => rename(one)), makeButton('Delete', () => remove(one))]],
      ],
      projects,
      'No projects yet. A key without one works for the whole organization.',
    ),
  );
}

async function showKeys(page, { org, act }) {
  const [keys, projects] = await Promise.all([
    call('GET', withQuery('/api-keys/', { org_id: org.id, limit: 200 })),
    call('GET', withQuery('/projects/', { org_id: org.id, limit: 200 })),
  ]);
  const shown = make('div');
  const show = ({ name, raw_key }) =>
    shown.replaceChildren(
      make('p', {}, `${name}: copy the key now, it is not shown again.`),
      make('code', { class: 'secret' }, raw_key),
    );
  const create = ({ name, project_id, mode }) =>
    act(
      async () =>
        show(
          await call('POST', '/api-keys/', { name, mode, org_id: org.id, project_id: project_id || null }),
        ),
      { keep: shown },
    );
  const rotate = (key) =>
    act(async () => show(await call('POST', `/api-keys/${key.id}/rotate`, { overlap_seconds: 3600 })), {
      keep: shown,
    });
  const revoke = (key) => {
    if (confirm(`Revoke ${key.name}? Whoever uses it is refused at once.`))
      act(() => call('DELETE', `/api-keys/${key.id}`));
  };
  page.append(
    title('API keys'),
    makeForm(
      [
        ['name', 'Name', { required: true, maxlength: 50 }],
        [
          'project_id',
          'Project',
          { options: [['', 'the whole organization'], ...projects.map(({ id, name }) => [id, name])] },
        ],
        [
          'mode',
          'Kind',
          {
            options: [
              ['live', 'live'],
              ['test', 'test'],
            ],
          },
        ],
      ],
      'Create',
      create,
    ),
    shown,
    makeTable(
      [
        ['Name', (key) => key.name, 'wide'],
        ['Key', (key) => make('code', {}, `${key.prefix}…${key.last4}`)],
        ['Scope', (key) => key.project_name ?? key.scope],
        ['Last used', (key) => when(key.last_used_at)],
        [
          '',
          (key) =>
            key.revoked
              ? 'revoked'
              : [makeButton('Rotate', () => rotate(key)), makeButton('Revoke', () => revoke(key))],
        ],
      ],
      keys,
      'No keys yet.',
    ),
  );
}

const ROLES = ['viewer', 'member', 'admin', 'owner'].map((role) => [role, role]);

async function showMembers(page, { org, act }) {
  const base = `/organizations/${org.id}`;
  const [members, invitations] = await Promise.all([
    call('GET', `${base}/members?limit=200`),
    call('GET', `${base}/invitations?limit=200`),
  ]);
  const change = (member, role) => act(() => call('PATCH', `${base}/members/${member.user_id}`, { role }));
  const remove = (member) => {
    if (confirm(`Remove ${member.email}?`)) act(() => call('DELETE', `${base}/members/${member.user_id}`));
  };
  const pickRole = (member) => {
    const options = ROLES.map(([value]) => make('option', { value, selected: value === member.role }, value));
    return make(
      'select',
      { 'aria-label': `Role of ${member.email}`, onchange: (event) => change(member, event.target.value) },
      options,
    );
  };
  page.append(
    title('Members'),
    makeTable(
      [
        ['E-mail', (member) => member.email, 'wide'],
        ['Role', pickRole],
        ['Joined', (member) => when(member.joined_at)],
        ['', (member) => makeButton('Remove', () => remove(member))],
      ],
      members,
      '',
    ),
    title('Invitations'),
    makeForm(
      [
        ['email', 'E-mail', { type: 'email', required: true }],
        ['role', 'Role', { options: [['member', 'member'], ...ROLES.filter(([role]) => role !== 'member')] }],
      ],
      'Invite',
      (fields) => act(() => call('POST', `${base}/invite`, fields)),
    ),
    makeTable(
      [
        ['E-mail', (one) => one.email, 'wide'],
        ['Role', (one) => one.role],
        ['State', (one) => one.status],
        ['Until', (one) => when(one.expires_at)],
        [
          '',
          (one) =>
            one.status === 'pending'
              ? makeButton('Revoke', () => act(() => call('DELETE', `${base}/invitations/${one.id}`)))
              : '',
        ],
      ],
      invitations,
      'Nobody is invited.',
    ),
  );
}

async function showBilling(page, { org, act }) {
  const query = { org_id: org.id };
  const subscription = await call('GET', withQuery('/billing/subscription', query));
  const go = (path, extra = {}) =>
    act(async () => {
      location.href = (await call('POST', withQuery(path, { ...query, ...extra }))).url;
    });
  page.append(
    title('Subscription'),
    makeTable(
      [
        ['Plan', (one) => one.plan],
        ['State', (one) => one.status],
        [
          'Interventions a month',
          (one) => (one.intervention_cap === null ? 'no cap' : number.format(one.intervention_cap)),
          'number',
        ],
        ['Until', (one) => (one.current_period_end === null ? '' : when(one.current_period_end))],
      ],
      [subscription],
      '',
    ),
    makeForm(
      [['lookup_key', 'Plan', { required: true, placeholder: 'pro' }]],
      'Subscribe',
      ({ lookup_key }) => go('/billing/create-checkout-session', { lookup_key }),
    ),
    makeButton('Manage the subscription', () => go('/billing/create-portal-session')),
  );
}

async function showAudit(page, { org }) {
  const entries = await call('GET', `/organizations/${org.id}/audit-log?limit=200`);
  page.append(
    title('Audit log'),
    makeTable(
      [
        ['When', (entry) => when(entry.created_at)],
        ['Who', (entry) => make('code', {}, entry.actor), 'wide'],
        ['What', (entry) => entry.action],
        ['Target', (entry) => make('code', {}, entry.target), 'wide'],
        ['After', (entry) => (entry.after === null ? '' : JSON.stringify(entry.after)), 'wide'],
        ['From', (entry) => entry.address],
      ],
      entries,
      'Nothing was changed yet.',
    ),
  );
}

/** What is the user's own, and the organization's name. */
async function showSettings(page, { org, profile, act, load }) {
  const change = (work) => act(() => work().then(load));
  page.append(
    title('You'),
    makeForm(
      [['display_name', 'Name', { maxlength: 200, value: profile.display_name ?? '' }]],
      'Save',
      ({ display_name }) =>
        change(() => call('PATCH', '/auth/me', { display_name: display_name || null, onboarded: true })),
    ),
  );
  if (org !== undefined) {
    page.append(
      title('This organization'),
      makeForm(
        [['name', 'Name', { required: true, maxlength: 100, value: org.name }]],
        'Rename',
        ({ name }) => change(() => call('PATCH', `/organizations/${org.id}`, { name })),
      ),
      makeButton('Leave it', () => {
        if (confirm(`Leave ${org.name}?`))
          change(() => call('DELETE', `/organizations/${org.id}/members/${profile.id}`));
      }),
    );
  }
  page.append(
    title('Another organization'),
    makeForm([['name', 'Name', { required: true, maxlength: 100 }]], 'Make', ({ name }) =>
      change(() => call('POST', '/organizations/', { name })),
    ),
  );
}

async function showFeedback(page, { act, notify }) {
  const submit = ({ message }, form) =>
    act(async () => {
      await call('POST', '/feedback/', { message, page: location.hash });
      form.reset();
      notify('Thank you.');
    });
  page.append(
    title('Feedback'),
    makeForm(
      [['message', 'What should be better?', { type: 'textarea', required: true, maxlength: 5000 }]],
      'Send',
      submit,
    ),
  );
}

/** Name in the address → heading and what fills the page. */
export const SECTIONS = {
  overview: ['Overview', showOverview],
  live: ['Live', showLive],
  projects: ['Projects', showProjects],
  keys: ['Keys', showKeys],
  members: ['Members', showMembers],
  billing: ['Billing', showBilling],
  audit: ['Audit', showAudit],
  settings: ['Settings', showSettings],
  feedback: ['Feedback', showFeedback],
};
