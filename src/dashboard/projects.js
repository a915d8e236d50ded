/** Projects: what keys, runs and patterns are told apart by. Browser. */
import {
  ask,
  makeForm,
  makeHead,
  makeId,
  makePanel,
  makeRowButton,
  makeTable,
  makeTime,
} from './elements.js';
import { isAtLeast, makeList } from './lists.js';
import { call, withQuery } from './session.js';

const NAME = { required: true, maxlength: 100 };

export async function fillProjects(page, { org, role, act, fail }) {
  const create = ({ name }) =>
    act(() => call('POST', withQuery('/projects/', { org_id: org.id }), { name }), `${name} is made.`);
  const rename = async (project) => {
    const fields = [['name', 'Name', { ...NAME, value: project.name }]];
    const chosen = await ask({ heading: 'Rename the project', fields, button: 'Rename' });
    if (chosen !== null)
      act(() => call('PATCH', `/projects/${project.id}`, { name: chosen.name }), 'Renamed.');
  };
  const remove = async (project) => {
    const keys = project.key_count === 1 ? 'its key' : `its ${project.key_count} keys`;
    const isSure = await ask({
      heading: `Delete ${project.name}?`,
      text:
        project.key_count === 0 ? 'This cannot be undone.' : `This revokes ${keys}, and cannot be undone.`,
      button: 'Delete',
      is_dangerous: true,
    });
    if (isSure !== null) act(() => call('DELETE', `/projects/${project.id}`), `${project.name} is deleted.`);
  };
  const actions = (project) => [
    isAtLeast(role, 'member') ? makeRowButton('Rename', project.name, () => rename(project)) : null,
    isAtLeast(role, 'admin') ? makeRowButton('Delete', project.name, () => remove(project)) : null,
  ];
  const list = await makeList(
    '/projects/',
    { org_id: org.id },
    (projects) =>
      makeTable(
        [
          ['Name', (one) => one.name, 'wide'],
          ['Id', (one) => makeId(one.id)],
          ['Keys', (one) => String(one.key_count), 'number'],
          ['Made', (one) => makeTime(one.created_at)],
          ['', actions, 'acts'],
        ],
        projects,
        'No projects yet. A key without one works for the whole organization.',
      ),
    fail,
  );
  page.append(
    makeHead(
      'Projects',
      'A project keeps its runs, findings and patterns apart; a key may be for one alone.',
    ),
  );
  if (isAtLeast(role, 'member'))
    page.append(makePanel('New project', makeForm([['name', 'Name', NAME]], 'Make the project', create)));
  page.append(makePanel(null, list));
}
