/** Projects, which separate keys, runs and patterns. Browser. */
import { call, callList } from '../core/api.ts';
import type { Row } from '../core/contract.ts';
import { countOf } from '../core/format.ts';
import { isAtLeast, organization } from '../core/session.ts';
import { Id, PageHead, Panel, Time } from '../ui/basics.tsx';
import { ask, type Field, Form } from '../ui/form.tsx';
import { act } from '../ui/notice.tsx';
import { type Column, ListTable, useCountedList } from '../ui/table.tsx';

type Project = Row<'GET /projects'>;

const NAME: Field = { name: 'name', label: 'Name', required: true, maxlength: 100 };

export function ProjectsPage() {
  const org = organization.value!;
  const list = useCountedList(org.id, (query, signal) =>
    callList('GET /projects', { query: { org_id: org.id, ...query }, signal }),
  );
  const actions = projectActions(org.id, list);
  return (
    <>
      <PageHead
        title="Projects"
        sub="A project separates runs, findings and patterns. A key may be limited to one project."
      />
      {isAtLeast('member') ? (
        <Panel title="New project">
          <Form fields={[NAME]} button="Make the project" submit={actions.create} clears />
        </Panel>
      ) : null}
      <Panel>
        <ListTable
          list={list}
          columns={projectColumns(actions)}
          keyOf={({ id }) => id}
          empty="No projects yet. A key without a project works for the whole organization."
          label="Projects"
        />
      </Panel>
    </>
  );
}

function projectActions(org_id: string, list: { refresh(): void }) {
  const change = async (work: () => Promise<unknown>, done: string) => {
    const isDone = await act(work, done);
    list.refresh();
    return isDone;
  };
  const create = ({ name = '' }) =>
    change(() => call('POST /projects', { query: { org_id }, body: { name } }), `${name} is made.`);
  const rename = async (project: Project) => {
    const chosen = await ask({
      heading: 'Rename the project',
      fields: [{ ...NAME, value: project.name }],
      button: 'Rename',
    });
    if (chosen === null) return;
    const ask_with = { params: { project_id: project.id }, body: { name: chosen.name ?? '' } };
    await change(() => call('PATCH /projects/{project_id}', ask_with), 'Renamed.');
  };
  const remove = async (project: Project) => {
    const keys = project.key_count ?? 0;
    const sure = await ask({
      heading: `Delete ${project.name}?`,
      text: `This deletes its runs, traces, patterns and findings${
        keys === 0 ? '' : `, and revokes its ${countOf(keys, 'key')}`
      }. It cannot be undone.`,
      button: 'Delete',
      is_dangerous: true,
    });
    if (sure === null) return;
    await change(
      () => call('DELETE /projects/{project_id}', { params: { project_id: project.id } }),
      `${project.name} is deleted.`,
    );
  };
  return { create, rename, remove };
}

function projectColumns({ rename, remove }: ReturnType<typeof projectActions>): Column<Project>[] {
  return [
    { title: 'Name', show: ({ name }) => name, kind: 'wide' },
    { title: 'Id', show: ({ id }) => <Id id={id} />, kind: 'short' },
    { title: 'Keys', show: ({ key_count }) => String(key_count ?? 0), kind: 'number' },
    { title: 'Made', show: ({ created_at }) => <Time at={created_at} /> },
    {
      title: '',
      kind: 'acts',
      show: (project) => (
        <>
          {isAtLeast('member') ? (
            <button
              type="button"
              class="quiet"
              aria-label={`Rename ${project.name}`}
              onClick={() => rename(project)}
            >
              Rename
            </button>
          ) : null}
          {isAtLeast('admin') ? (
            <button
              type="button"
              class="quiet"
              aria-label={`Delete ${project.name}`}
              onClick={() => remove(project)}
            >
              Delete
            </button>
          ) : null}
        </>
      ),
    },
  ];
}
