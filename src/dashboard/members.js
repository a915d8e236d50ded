/** Members of the organization and invitations to it. Browser. */
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
import { isAtLeast, makeList, rolesUpTo } from './lists.js';
import { call } from './session.js';

const STATES = { pending: '', accepted: 'good', revoked: 'off', expired: 'off' };

export async function fillMembers(page, { org, role, profile, act, load, fail }) {
  const base = `/organizations/${org.id}`;
  const isAdmin = isAtLeast(role, 'admin');
  // Of owners only an owner may say anything.
  const mayTouch = (member) => isAdmin && (member.role !== 'owner' || role === 'owner');
  const change = (member, next) =>
    act(
      () => call('PATCH', `${base}/members/${member.user_id}`, { role: next }),
      `${member.email} is ${next} now.`,
    );
  const remove = async (member) => {
    const isSelf = member.user_id === profile.id;
    const isSure = await ask({
      heading: isSelf ? `Leave ${org.name}?` : `Remove ${member.email}?`,
      text: isSelf
        ? 'Only an invitation brings you back.'
        : 'They lose sight of the organization at once. Keys that they made go on working.',
      button: isSelf ? 'Leave' : 'Remove',
      is_dangerous: true,
    });
    if (isSure === null) return;
    act(async () => {
      await call('DELETE', `${base}/members/${member.user_id}`);
      if (isSelf) await load();
    });
  };
  const pickRole = (member) => {
    if (!mayTouch(member)) return member.role;
    const onchange = ({ target }) => {
      const next = target.value;
      // It shows what is, until the server says otherwise.
      target.value = member.role;
      change(member, next);
    };
    return make(
      'select',
      { 'aria-label': `Role of ${member.email}`, onchange },
      rolesUpTo(role).map((value) => make('option', { value, selected: value === member.role }, value)),
    );
  };
  const actions = (member) => {
    if (member.user_id === profile.id) return makeButton('Leave', () => remove(member));
    return mayTouch(member) ? makeRowButton('Remove', member.email, () => remove(member)) : null;
  };
  const showMembers = (members) =>
    makeTable(
      [
        [
          'E-mail',
          (member) => [
            member.email,
            member.user_id === profile.id ? make('span', { class: 'faint' }, ' (you)') : null,
          ],
          'wide',
        ],
        ['Role', pickRole],
        ['Joined', (member) => makeTime(member.joined_at)],
        ['', actions, 'acts'],
      ],
      members,
      'Nobody is here.',
    );
  const revoke = (one) =>
    act(() => call('DELETE', `${base}/invitations/${one.id}`), `The invitation of ${one.email} is revoked.`);
  const showInvitations = (invitations) =>
    makeTable(
      [
        ['E-mail', (one) => one.email, 'wide'],
        ['Role', (one) => one.role],
        ['State', (one) => makeBadge(one.status, STATES[one.status])],
        ['Until', (one) => makeTime(one.expires_at)],
        [
          '',
          (one) =>
            isAdmin && one.status === 'pending'
              ? makeRowButton('Revoke', `the invitation of ${one.email}`, () => revoke(one))
              : null,
          'acts',
        ],
      ],
      invitations,
      'Nobody is invited.',
    );
  const [members, invitations] = await Promise.all([
    makeList(`${base}/members`, {}, showMembers, fail),
    makeList(`${base}/invitations`, {}, showInvitations, fail),
  ]);
  page.append(
    makeHead('Members', 'Viewers read; members make keys and projects; admins manage people; owners pay.'),
    makePanel(null, members),
  );
  const invite = (fields) =>
    act(async () => {
      const { email } = await call('POST', `${base}/invite`, fields);
      await tellOfInvitation(email);
    });
  page.append(
    makePanel(
      'Invitations',
      isAdmin
        ? makeForm(
            [
              ['email', 'E-mail', { type: 'email', required: true, placeholder: 'ann@example.com' }],
              [
                'role',
                'Role',
                {
                  options: [...rolesUpTo(role)]
                    .sort((one) => (one === 'member' ? -1 : 0))
                    .map((one) => [one, one]),
                },
              ],
            ],
            'Invite',
            invite,
          )
        : null,
      invitations,
    ),
  );
}

/** No mail is sent: whoever invites must tell them. */
async function tellOfInvitation(email) {
  const dialog = make('dialog', { 'aria-label': 'Invited' });
  dialog.append(
    make('h2', {}, `${email} is invited`),
    make('p', {}, 'No mail is sent. Tell them to sign in here; the invitation waits for them for 7 days.'),
    makeSnippet(`${location.origin}/`, 'Where to sign in'),
    make(
      'p',
      { class: 'faint' },
      'Without an identity provider, whoever runs the server makes them a token there:',
    ),
    makeSnippet(`npx understudy token --email ${email}`, 'Command that makes a token'),
    make(
      'div',
      { class: 'actions' },
      makeButton('Done', () => dialog.close(), 'main'),
    ),
  );
  document.body.append(dialog);
  await new Promise((resolve) => {
    dialog.addEventListener('close', resolve);
    dialog.showModal();
  });
  dialog.remove();
}
