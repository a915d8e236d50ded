/** Settings of the reader and of the organization. Browser. */
import { goTo } from '../core/address.ts';
import { call } from '../core/api.ts';
import {
  bootstrap,
  isAtLeast,
  organization,
  reloadSession,
  role,
  signInReason,
  signOut,
} from '../core/session.ts';
import { Id, PageHead, Panel } from '../ui/basics.tsx';
import { ask, Form } from '../ui/form.tsx';
import { act } from '../ui/notice.tsx';
import { RetentionPanel } from '../ui/retention.tsx';

const change = (work: () => Promise<unknown>, done: string) =>
  act(async () => {
    await work();
    await reloadSession();
  }, done);

export function SettingsPage() {
  const { profile } = bootstrap.value!;
  return (
    <>
      <PageHead title="Settings" />
      <Panel title="You">
        <p class="faint">
          Signed in as {profile.email}. <Id id={profile.id} />
        </p>
        <Form
          fields={[
            { name: 'display_name', label: 'Name', maxlength: 200, value: profile.display_name ?? '' },
          ]}
          button="Save"
          submit={({ display_name = '' }) =>
            change(
              () => call('PATCH /auth/me', { body: { display_name: display_name || null, onboarded: true } }),
              'Saved.',
            )
          }
        />
      </Panel>
      {organization.value === null ? null : <OrganizationPanel key={organization.value.id} />}
      {organization.value === null ? null : <RetentionPanel />}
      <Panel
        title="Another organization"
        sub="It has separate members, projects, keys, patterns and a separate bill. You will own it."
      >
        <Form
          fields={[{ name: 'name', label: 'Name', required: true, maxlength: 100 }]}
          button="Make the organization"
          submit={({ name = '' }) =>
            change(
              () => call('POST /organizations', { body: { name } }),
              `${name} was made. Choose it in the menu.`,
            )
          }
          clears
        />
      </Panel>
      <DangerPanel />
    </>
  );
}

/** Irreversible actions. Each asks the reader to type a name. */
function DangerPanel() {
  const { profile } = bootstrap.value!;
  const org = organization.value;
  const deleteOrganization = async () => {
    const sure = await ask({
      heading: `Delete ${org!.name}?`,
      text: 'Its projects, keys, runs, patterns, findings and members’ access are deleted at once, permanently. Requests with its keys are refused from now on.',
      fields: [
        {
          name: 'name',
          label: `Type the name of the organization: ${org!.name}`,
          required: true,
          exactly: org!.name.trim(),
        },
      ],
      button: 'Delete the organization',
      is_dangerous: true,
    });
    if (sure === null) return;
    const params = { org_id: org!.id };
    const isDone = await change(
      () => call('DELETE /organizations/{org_id}', { params }),
      `${org!.name} is deleted.`,
    );
    if (isDone) goTo('');
  };
  const deleteAccount = async () => {
    const sure = await ask({
      heading: 'Delete your account?',
      text: 'You leave every organization. Organizations without another member are deleted with all their data. Earlier links and tokens, including the link that the terminal showed at the start, no longer sign you in. A new link or token makes a new, empty account.',
      fields: [
        {
          name: 'email',
          label: `Type your address: ${profile.email}`,
          required: true,
          exactly: profile.email,
        },
      ],
      button: 'Delete my account',
      is_dangerous: true,
    });
    if (sure === null) return;
    await act(async () => {
      await call('DELETE /auth/me', {});
      // Signing out removes the cookie, whose account no longer exists.
      await signOut().catch(() => {});
      signInReason.value = 'Your account was deleted, and its links and tokens no longer work.';
    });
  };
  return (
    <Panel title="Delete" sub="Deletions here cannot be undone." class="danger-zone">
      {org !== null && isAtLeast('owner') ? (
        <p>
          <button type="button" class="plain danger" onClick={deleteOrganization}>
            Delete the organization {org.name}
          </button>
        </p>
      ) : null}
      <p>
        <button type="button" class="plain danger" onClick={deleteAccount}>
          Delete my account
        </button>
      </p>
    </Panel>
  );
}

function OrganizationPanel() {
  const org = organization.value!;
  const { profile } = bootstrap.value!;
  const leave = async () => {
    const sure = await ask({
      heading: `Leave ${org.name}?`,
      text: 'Only an invitation brings you back. Keys that you made still work.',
      button: 'Leave',
      is_dangerous: true,
    });
    if (sure === null) return;
    const params = { org_id: org.id, member_user_id: profile.id };
    const isDone = await change(
      () => call('DELETE /organizations/{org_id}/members/{member_user_id}', { params }),
      `You have left ${org.name}.`,
    );
    if (isDone) goTo('');
  };
  return (
    <Panel title="This organization">
      <p class="faint">
        You are {role.value} of {org.name}. <Id id={org.id} />
      </p>
      {isAtLeast('admin') ? (
        <Form
          fields={[{ name: 'name', label: 'Name', required: true, maxlength: 100, value: org.name }]}
          button="Rename"
          submit={({ name = '' }) =>
            change(
              () => call('PATCH /organizations/{org_id}', { params: { org_id: org.id }, body: { name } }),
              'Renamed.',
            )
          }
        />
      ) : null}
      <button type="button" class="quiet" onClick={leave}>
        Leave this organization
      </button>
    </Panel>
  );
}
