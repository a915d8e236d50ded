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
          <Empty title="Only admins and owners of the organization can read the audit log." />
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
      kind: 'name',
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
    { title: 'What', show: ({ action }) => <code>{action}</code>, kind: 'short' },
    { title: 'Object', show: ({ target }) => <Id id={target} />, kind: 'short' },
    { title: 'Change', show: describeChange, kind: 'wide' },
    { title: 'Address', show: ({ address }) => <span class="faint">{address || '–'}</span> },
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

/** Reads a value of a record; null: the value is missing or empty. */
function knownOf(record: Entry['before'], name: string): unknown {
  const value = record?.[name] ?? null;
  return value === '' ? null : value;
}

/** Each changed field before and after. */
function describeChange({ before, after }: Entry) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  return names.map((name) => {
    const [from, to] = [knownOf(before, name), knownOf(after, name)];
    if (JSON.stringify(from) === JSON.stringify(to)) return null;
    return (
      <div key={name}>
        <span class="faint">{name} </span>
        {from === null ? null : <del>{showValue(from)}</del>}
        {from === null || to === null ? null : ' → '}
        {to === null ? null : <ins>{showValue(to)}</ins>}
      </div>
    );
  });
}
