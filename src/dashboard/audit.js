/** Audit log: who changed what, when and from where. Browser. */
import { make, makeEmail, makeHead, makeId, makePanel, makeTable, makeTime } from './elements.js';
import { isAtLeast, makeList, readAll } from './lists.js';

export async function fillAudit(page, { org, role, fail }) {
  page.append(makeHead('Audit log', 'Every change of the organization, newest first.'));
  if (!isAtLeast(role, 'admin')) {
    page.append(
      makePanel(null, make('p', { class: 'empty' }, 'Admins and owners of the organization can read it.')),
    );
    return;
  }
  const members = await readAll(`/organizations/${org.id}/members`, {});
  const emails = new Map(members.map(({ user_id, email }) => [user_id, email]));
  const who = ({ actor, actor_type }) => {
    const email = emails.get(actor);
    if (email !== undefined) return makeEmail(email, { title: actor });
    return [`${actor_type} `, makeId(actor)];
  };
  const list = await makeList(
    `/organizations/${org.id}/audit-log`,
    {},
    (entries) =>
      makeTable(
        [
          ['When', (entry) => makeTime(entry.created_at)],
          ['Who', who],
          ['What', (entry) => make('code', {}, entry.action)],
          ['Of', (entry) => makeId(entry.target)],
          ['Change', describeChange, 'wide'],
          ['From', (entry) => make('span', { class: 'faint' }, entry.address || '–')],
        ],
        entries,
        'Nothing was changed yet.',
      ),
    fail,
  );
  page.append(makePanel(null, list));
}

const ADDRESS = /^[^\s@]+@[^\s@]+$/;

function show(value) {
  if (typeof value !== 'string') return JSON.stringify(value);
  return ADDRESS.test(value) ? makeEmail(value) : value;
}

/** Each field as it was and as it is. */
function describeChange({ before, after }) {
  const isSaid = (name) => (before?.[name] ?? after?.[name] ?? null) !== null;
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].filter(isSaid);
  return names.map((name) => {
    const [from, to] = [before?.[name], after?.[name]];
    return make(
      'div',
      {},
      make('span', { class: 'faint' }, `${name} `),
      from === undefined ? null : make('del', {}, show(from)),
      from === undefined || to === undefined ? null : ' → ',
      to === undefined ? null : make('ins', {}, show(to)),
    );
  });
}
