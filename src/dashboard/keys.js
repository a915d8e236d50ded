/** API keys: made, shown once, rotated, revoked. Browser. */
import {
  ask,
  make,
  makeBadge,
  makeButton,
  makeForm,
  makeHead,
  makePanel,
  makeRowButton,
  makeSnippet,
  makeTable,
  makeTime,
} from './elements.js';
import { firstCalls, isAtLeast, makeList, readAll } from './lists.js';
import { call } from './session.js';

const OVERLAPS = [
  ['3600', 'for another hour'],
  ['86400', 'for another day'],
  ['604800', 'for another week'],
  ['0', 'not at all: it is refused from now on'],
];

export async function fillKeys(page, { org, role, act, fail }) {
  const mayChange = isAtLeast(role, 'member');
  const projects = await readAll('/projects/', { org_id: org.id });
  const create = ({ name, project_id, mode }) =>
    act(async () => {
      const body = { name, mode, org_id: org.id, project_id: project_id || null };
      await showKey(await call('POST', '/api-keys/', body));
    });
  const rotate = async (key) => {
    const chosen = await ask({
      heading: `Rotate ${key.name}`,
      text: 'Makes a successor of the same name and scope, which is shown once.',
      fields: [['overlap_seconds', 'The old key goes on working', { options: OVERLAPS }]],
      button: 'Rotate',
    });
    if (chosen === null) return;
    const overlap_seconds = Number(chosen.overlap_seconds);
    act(async () => showKey(await call('POST', `/api-keys/${key.id}/rotate`, { overlap_seconds })));
  };
  const revoke = async (key) => {
    const isSure = await ask({
      heading: `Revoke ${key.name}?`,
      text: 'Whoever uses it is refused at once. This cannot be undone.',
      button: 'Revoke',
      is_dangerous: true,
    });
    if (isSure !== null) act(() => call('DELETE', `/api-keys/${key.id}`), `${key.name} is revoked.`);
  };
  const actions = (key) => {
    if (key.revoked) return makeBadge('revoked', 'off');
    if (!mayChange) return makeBadge('active', 'good');
    return [
      makeRowButton('Rotate', key.name, () => rotate(key)),
      makeRowButton('Revoke', key.name, () => revoke(key)),
    ];
  };
  const scope = (key) => {
    if (key.scope === 'organization') return 'the whole organization';
    return key.project_name ?? make('span', { class: 'faint' }, 'a deleted project');
  };
  const list = await makeList(
    '/api-keys/',
    { org_id: org.id },
    (keys) =>
      makeTable(
        [
          ['Name', (key) => key.name, 'wide'],
          ['Key', (key) => make('code', {}, `${key.prefix}…${key.last4}`)],
          ['Scope', scope, 'wide'],
          ['Last used', (key) => makeTime(key.last_used_at)],
          ['Made', (key) => makeTime(key.created_at)],
          ['', actions, 'acts'],
        ],
        keys,
        'No keys yet.',
      ),
    fail,
  );
  page.append(
    makeHead('API keys', 'For agents and scripts that call /v1. A key is shown once, when it is made.'),
  );
  if (mayChange)
    page.append(
      makePanel(
        'New key',
        makeForm(
          [
            ['name', 'Name', { required: true, maxlength: 50, placeholder: 'ci' }],
            [
              'project_id',
              'Scope',
              { options: [['', 'the whole organization'], ...projects.map(({ id, name }) => [id, name])] },
            ],
            ['mode', 'Kind', { options: ['live', 'test'].map((mode) => [mode, mode]) }],
          ],
          'Make the key',
          create,
        ),
      ),
    );
  page.append(makePanel(null, list));
}

/** Shows a key this once, until its reader closes it. */
async function showKey({ name, raw_key }) {
  const heading = `The key ${name}`;
  const dialog = make('dialog', { 'aria-label': heading });
  const done = makeButton('I have stored it', () => dialog.close(), 'main');
  dialog.append(
    make('h2', {}, heading),
    make('p', {}, 'Copy it now: it is not shown again, here or anywhere else.'),
    makeSnippet(raw_key, 'The key'),
    make('details', {}, make('summary', {}, 'First calls with it'), makeSnippet(firstCalls(raw_key))),
    make('div', { class: 'actions' }, done),
  );
  document.body.append(dialog);
  await new Promise((resolve) => {
    dialog.addEventListener('close', resolve);
    // Escape is pressed too easily for what is shown once.
    dialog.addEventListener('cancel', (event) => event.preventDefault());
    dialog.showModal();
  });
  dialog.remove();
}
