/** Audit log: who changed what, when and from where. Browser. */
import { call, callList } from '../core/api.ts';
import type { Row } from '../core/contract.ts';
import { useResource } from '../core/resource.ts';
import { isAtLeast, organization } from '../core/session.ts';
import { Email, Id, PageHead, Panel, Time } from '../ui/basics.tsx';
import { Empty } from '../ui/states.tsx';
import { type Column, ListTable, useCountedList } from '../ui/table.tsx';

type Entry = Row<'GET /organizations/{org_id}/audit-log'>;

const ADDRESS = /^[^\s@]+@[^\s@]+$/;

export function AuditPage() {
  return (
    <>
      <PageHead title="Audit log" sub="Every change of the organization, newest first." />
      {isAtLeast('admin') ? (
        <AuditList />
      ) : (
        <Panel>
          <Empty title="Admins and owners of the organization can read it." />
        </Panel>
      )}
    </>
  );
}

function AuditList() {
  const params = { org_id: organization.value!.id };
  const members = useResource(`members ${params.org_id}`, (signal) =>
    call('GET /organizations/{org_id}/members', { params, query: { limit: 200 }, signal }),
  );
  const list = useCountedList(`audit ${params.org_id}`, (query, signal) =>
    callList('GET /organizations/{org_id}/audit-log', { params, query, signal }),
  );
  const emails = new Map((members.data.value ?? []).map(({ user_id, email }) => [user_id, email]));
  const columns: Column<Entry>[] = [
    { title: 'When', show: ({ created_at }) => <Time at={created_at} /> },
    {
      title: 'Who',
      show: ({ actor, actor_type }) => {
        const email = emails.get(actor);
        if (email !== undefined) return <Email email={email} title={actor} />;
        return (
          <>
            {actor_type} <Id id={actor} />
          </>
        );
      },
    },
    { title: 'What', show: ({ action }) => <code>{action}</code> },
    { title: 'Of', show: ({ target }) => <Id id={target} /> },
    { title: 'Change', show: describeChange, kind: 'wide' },
    { title: 'From', show: ({ address }) => <span class="faint">{address || '–'}</span> },
  ];
  return (
    <Panel>
      <ListTable
        list={list}
        columns={columns}
        keyOf={({ id }) => id}
        empty="No changes yet."
        label="Audit log"
      />
    </Panel>
  );
}

function showValue(value: unknown) {
  if (typeof value !== 'string') return JSON.stringify(value);
  return ADDRESS.test(value) ? <Email email={value} /> : value;
}

/** Each changed field before and after. */
function describeChange({ before, after }: Entry) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].filter(
    (name) => (before?.[name] ?? after?.[name] ?? null) !== null,
  );
  return names.map((name) => {
    const from = before?.[name];
    const to = after?.[name];
    return (
      <div key={name}>
        <span class="faint">{name} </span>
        {from === undefined ? null : <del>{showValue(from)}</del>}
        {from === undefined || to === undefined ? null : ' → '}
        {to === undefined ? null : <ins>{showValue(to)}</ins>}
      </div>
    );
  });
}
