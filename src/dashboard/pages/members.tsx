/** Members of the organization and invitations to it. Browser. */
import { call, callList } from '../core/api.ts';
import type { Row } from '../core/contract.ts';
import {
  bootstrap,
  isAtLeast,
  organization,
  type Role,
  reloadSession,
  role,
  rolesToGive,
} from '../core/session.ts';
import { Badge, Email, PageHead, Panel, Snippet, Time, type Tone } from '../ui/basics.tsx';
import { ask, type FieldValues, Form, showDialog } from '../ui/form.tsx';
import { act } from '../ui/notice.tsx';
import { type Column, ListTable, useCountedList } from '../ui/table.tsx';

type Member = Row<'GET /organizations/{org_id}/members'>;
type Invitation = Row<'GET /organizations/{org_id}/invitations'>;

const TONES: Readonly<Record<Invitation['status'], Tone>> = {
  pending: 'plain',
  accepted: 'good',
  revoked: 'off',
  expired: 'off',
};

export function MembersPage() {
  const org = organization.value!;
  const params = { org_id: org.id };
  const members = useCountedList(`members ${org.id}`, (query, signal) =>
    callList('GET /organizations/{org_id}/members', { params, query, signal }),
  );
  const invitations = useCountedList(`invitations ${org.id}`, (query, signal) =>
    callList('GET /organizations/{org_id}/invitations', { params, query, signal }),
  );
  const actions = { ...memberActions(org, members), ...invitationActions(params, invitations) };
  return (
    <>
      <PageHead
        title="Members"
        sub="Viewers read; members make keys and projects; admins manage people; owners pay."
      />
      <Panel>
        <ListTable
          list={members}
          columns={memberColumns(actions)}
          keyOf={({ user_id }) => user_id}
          empty="No members."
          label="Members"
        />
      </Panel>
      <Panel title="Invitations">
        {isAtLeast('admin') ? <InviteForm submit={actions.invite} /> : null}
        <ListTable
          list={invitations}
          columns={invitationColumns(actions)}
          keyOf={({ id }) => id}
          empty="No invitations."
          label="Invitations"
        />
      </Panel>
    </>
  );
}

/** Whether the reader may change a member: an admin may, but only an owner may change an owner. */
const mayTouch = (member: Member) =>
  isAtLeast('admin') && (member.role !== 'owner' || role.value === 'owner');

const isOneself = (member: Member) => member.user_id === bootstrap.value!.profile.id;

function memberActions(org: { id: string; name: string }, members: { refresh(): void }) {
  const params = { org_id: org.id };
  const change = async (member: Member, next: Role) => {
    await act(
      () =>
        call('PATCH /organizations/{org_id}/members/{member_user_id}', {
          params: { ...params, member_user_id: member.user_id },
          body: { role: next },
        }),
      `${member.email} is ${next} now.`,
    );
    members.refresh();
    if (isOneself(member)) await reloadSession();
  };
  const remove = async (member: Member) => {
    const isSelf = isOneself(member);
    const sure = await ask({
      heading: isSelf ? `Leave ${org.name}?` : `Remove ${member.email}?`,
      text: isSelf
        ? 'Only an invitation brings you back. Keys that you made still work.'
        : 'They lose access to the organization at once. Keys that they made still work.',
      button: isSelf ? 'Leave' : 'Remove',
      is_dangerous: true,
    });
    if (sure === null) return;
    await act(() =>
      call('DELETE /organizations/{org_id}/members/{member_user_id}', {
        params: { ...params, member_user_id: member.user_id },
      }),
    );
    if (isSelf) await reloadSession();
    else members.refresh();
  };
  return { change, remove };
}

function invitationActions(params: { org_id: string }, invitations: { refresh(): void }) {
  const invite = async ({ email = '', role: given }: FieldValues) => {
    const isDone = await act(async () => {
      const body = { email, role: given as Role };
      const made = await call('POST /organizations/{org_id}/invite', { params, body });
      await tellOfInvitation(made.email);
    });
    invitations.refresh();
    return isDone;
  };
  const revoke = async ({ id, email }: Invitation) => {
    await act(
      () =>
        call('DELETE /organizations/{org_id}/invitations/{invitation_id}', {
          params: { ...params, invitation_id: id },
        }),
      `The invitation of ${email} is revoked.`,
    );
    invitations.refresh();
  };
  return { invite, revoke };
}

function memberColumns({ change, remove }: ReturnType<typeof memberActions>): Column<Member>[] {
  return [
    {
      title: 'E-mail',
      kind: 'wide',
      show: (member) => (
        <>
          <Email email={member.email} />
          {isOneself(member) ? <span class="faint"> (you)</span> : null}
        </>
      ),
    },
    {
      title: 'Role',
      show: (member) =>
        mayTouch(member) ? (
          <select
            aria-label={`Role of ${member.email}`}
            value={member.role}
            onChange={({ currentTarget }) => {
              const next = currentTarget.value as Role;
              // The field shows the present role until the server has changed it.
              currentTarget.value = member.role;
              void change(member, next);
            }}
          >
            {rolesToGive().map((role) => (
              <option key={role} value={role} selected={role === member.role}>
                {role}
              </option>
            ))}
          </select>
        ) : (
          member.role
        ),
    },
    { title: 'Joined', show: ({ joined_at }) => <Time at={joined_at} /> },
    {
      title: '',
      kind: 'acts',
      show: (member) => {
        const isSelf = isOneself(member);
        if (!isSelf && !mayTouch(member)) return null;
        return (
          <button
            type="button"
            class="quiet"
            aria-label={isSelf ? 'Leave the organization' : `Remove ${member.email}`}
            onClick={() => remove(member)}
          >
            {isSelf ? 'Leave' : 'Remove'}
          </button>
        );
      },
    },
  ];
}

function invitationColumns({ revoke }: ReturnType<typeof invitationActions>): Column<Invitation>[] {
  return [
    { title: 'E-mail', show: ({ email }) => <Email email={email} />, kind: 'wide' },
    { title: 'Role', show: ({ role }) => role },
    { title: 'State', show: ({ status }) => <Badge tone={TONES[status]}>{status}</Badge> },
    {
      title: 'Until',
      show: ({ status, expires_at }) => <Time at={status === 'pending' ? expires_at : null} never="–" />,
    },
    {
      title: '',
      kind: 'acts',
      show: (invitation) =>
        isAtLeast('admin') && invitation.status === 'pending' ? (
          <button
            type="button"
            class="quiet"
            aria-label={`Revoke the invitation of ${invitation.email}`}
            onClick={() => revoke(invitation)}
          >
            Revoke
          </button>
        ) : null,
    },
  ];
}

function InviteForm({ submit }: { submit: (values: FieldValues) => Promise<boolean> }) {
  return (
    <Form
      fields={[
        {
          name: 'email',
          label: 'E-mail',
          type: 'email',
          required: true,
          placeholder: 'ann@example.com',
        },
        {
          name: 'role',
          label: 'Role',
          type: 'select',
          value: 'member',
          options: rolesToGive().map((role) => [role, role]),
        },
      ]}
      button="Invite"
      submit={submit}
      clears
    />
  );
}

/** Shows what the inviting member must tell the invited person, because no mail is sent. */
function tellOfInvitation(email: string): Promise<void> {
  return showDialog(`${email} is invited`, (close) => (
    <>
      <p>No mail is sent. Tell them to sign in here; the invitation waits for them for 7 days.</p>
      <Snippet text={`${location.origin}/`} label="Where to sign in" />
      <p class="faint">
        Without an identity provider, the operator of the server makes them a token on the server:
      </p>
      <Snippet text={`npx understudy-gateway token --email ${email}`} label="Command that makes a token" />
      <div class="form-actions">
        <button type="button" class="main" onClick={close}>
          Done
        </button>
      </div>
    </>
  ));
}
