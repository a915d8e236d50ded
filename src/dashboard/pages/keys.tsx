/** API keys: makes, shows once, rotates and revokes them. Browser. */
import { call, callList } from '../core/api.ts';
import type { Reply, Row } from '../core/contract.ts';
import { firstCalls } from '../core/first-calls.ts';
import { formatShort } from '../core/format.ts';
import { useResource } from '../core/resource.ts';
import { isAtLeast, organization } from '../core/session.ts';
import { Badge, PageHead, Panel, Snippet, Time } from '../ui/basics.tsx';
import { ask, type FieldValues, Form, showDialog } from '../ui/form.tsx';
import { act } from '../ui/notice.tsx';
import { type Column, ListTable, useCountedList } from '../ui/table.tsx';

type Key = Row<'GET /api-keys'>;

const OVERLAPS = [
  ['3600', 'for another hour'],
  ['86400', 'for another day'],
  ['604800', 'for another week'],
  ['0', 'not at all: the service refuses it from now on'],
] as const;

export function KeysPage() {
  const org = organization.value!;
  const mayChange = isAtLeast('member');
  const list = useCountedList(org.id, (query, signal) =>
    callList('GET /api-keys', { query: { org_id: org.id, ...query }, signal }),
  );
  const projects = useResource(`projects ${org.id}`, (signal) =>
    call('GET /projects', { query: { org_id: org.id, limit: 200 }, signal }),
  );
  const usage = useResource(
    `requests ${org.id}`,
    (signal) => call('GET /usage/keys', { query: { org_id: org.id, days: 30 }, signal }),
    { every_ms: 30_000 },
  );
  const requestsOf = ({ id }: Key) => usage.data.value?.keys.find((key) => key.id === id)?.requests ?? null;
  const actions = keyActions(org.id, list);
  return (
    <>
      <PageHead
        title="API keys"
        sub="For agents and scripts that call /v1. A key is shown once, when it is made."
      />
      {mayChange ? (
        <Panel title="New key">
          <KeyForm projects={projects.data.value ?? []} submit={actions.create} />
        </Panel>
      ) : null}
      <Panel>
        <ListTable
          list={list}
          columns={keyColumns(actions, requestsOf)}
          keyOf={({ id }) => id}
          empty="No keys yet."
          label="API keys"
        />
      </Panel>
    </>
  );
}

function keyActions(org_id: string, list: { refresh(): void }) {
  const change = async (work: () => Promise<unknown>, done: string | null = null) => {
    const isDone = await act(work, done);
    list.refresh();
    return isDone;
  };
  const create = ({ name = '', project_id = '', mode }: FieldValues) =>
    change(async () => {
      const body = {
        name,
        mode: mode === 'test' ? 'test' : 'live',
        org_id,
        project_id: project_id || null,
      } as const;
      await showKey(await call('POST /api-keys', { body }));
    });
  const rotate = async (key: Key) => {
    const chosen = await ask({
      heading: `Rotate ${key.name}`,
      text: 'Makes a new key with the same name and scope, which is shown once.',
      fields: [
        {
          name: 'overlap_seconds',
          label: 'The old key continues to work',
          type: 'select',
          options: OVERLAPS,
        },
      ],
      button: 'Rotate',
    });
    if (chosen === null) return;
    const overlap_seconds = Number(chosen.overlap_seconds);
    await change(async () =>
      showKey(
        await call('POST /api-keys/{key_id}/rotate', {
          params: { key_id: key.id },
          body: { overlap_seconds },
        }),
      ),
    );
  };
  const revoke = async (key: Key) => {
    const sure = await ask({
      heading: `Revoke ${key.name}?`,
      text: 'Requests with this key are refused at once. This cannot be undone.',
      button: 'Revoke',
      is_dangerous: true,
    });
    if (sure !== null)
      await change(
        () => call('DELETE /api-keys/{key_id}', { params: { key_id: key.id } }),
        `${key.name} is revoked.`,
      );
  };
  return { create, rotate, revoke };
}

function keyColumns(
  { rotate, revoke }: ReturnType<typeof keyActions>,
  requestsOf: (key: Key) => number | null,
): Column<Key>[] {
  const mayChange = isAtLeast('member');
  return [
    { title: 'Name', show: (key) => key.name, kind: 'name' },
    { title: 'Key', show: (key) => <code>{`${key.prefix}…${key.last4}`}</code>, kind: 'short' },
    { title: 'Scope', show: showScope, kind: 'name' },
    { title: 'Last used', show: (key) => <Time at={key.last_used_at} /> },
    { title: 'Requests, 30 days', show: (key) => formatShort(requestsOf(key)), kind: 'number' },
    { title: 'Made', show: (key) => <Time at={key.created_at} /> },
    {
      title: '',
      kind: 'acts',
      show: (key) => {
        if (key.revoked) return <Badge tone="off">revoked</Badge>;
        if (!mayChange) return <Badge tone="good">active</Badge>;
        return (
          <>
            <button type="button" class="quiet" aria-label={`Rotate ${key.name}`} onClick={() => rotate(key)}>
              Rotate
            </button>
            <button type="button" class="quiet" aria-label={`Revoke ${key.name}`} onClick={() => revoke(key)}>
              Revoke
            </button>
          </>
        );
      },
    },
  ];
}

function KeyForm({
  projects,
  submit,
}: {
  projects: readonly { id: string; name: string }[];
  submit: (values: FieldValues) => Promise<boolean>;
}) {
  const scopes = projects.map(({ id, name }) => [id, name] as const);
  return (
    <Form
      fields={[
        { name: 'name', label: 'Name', required: true, maxlength: 50, placeholder: 'ci' },
        {
          name: 'project_id',
          label: 'Scope',
          type: 'select',
          options: [['', 'the whole organization'], ...scopes],
        },
        {
          name: 'mode',
          label: 'Kind',
          type: 'select',
          options: [
            ['live', 'live'],
            ['test', 'test'],
          ],
        },
      ]}
      button="Make the key"
      submit={submit}
      clears
    />
  );
}

function showScope({ scope, project_name }: Key) {
  if (scope === 'organization') return 'the whole organization';
  return project_name ?? <span class="faint">a deleted project</span>;
}

/** Shows a new key once, until the reader closes the dialog. */
function showKey({ name, raw_key }: Reply<'POST /api-keys'>): Promise<void> {
  return showDialog(
    `The key ${name}`,
    (close) => (
      <>
        <p>Copy it now: it is not shown again, here or anywhere else.</p>
        <Snippet text={raw_key} label="The key" />
        <details>
          <summary>First calls with it</summary>
          <Snippet text={firstCalls(raw_key)} label="First calls" />
        </details>
        <div class="form-actions">
          <button type="button" class="main" onClick={close}>
            I have stored it
          </button>
        </div>
      </>
    ),
    // Escape does not close it, because a key that is shown only once would be lost too easily.
    { stays: true },
  );
}
