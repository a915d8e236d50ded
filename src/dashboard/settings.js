/** Settings and feedback: what is the user's own, and the organization's name. Browser. */
import { ask, make, makeButton, makeForm, makeHead, makeId, makePanel } from './elements.js';
import { isAtLeast } from './lists.js';
import { call } from './session.js';

export async function fillSettings(page, { org, role, profile, act, load }) {
  const change = (work, said) => act(() => work().then(load), said);
  page.append(
    makeHead('Settings'),
    makePanel(
      'You',
      make('p', { class: 'faint' }, `Signed in as ${profile.email}. `, makeId(profile.id)),
      makeForm(
        [['display_name', 'Name', { maxlength: 200, value: profile.display_name ?? '' }]],
        'Save',
        ({ display_name }) =>
          change(
            () => call('PATCH', '/auth/me', { display_name: display_name || null, onboarded: true }),
            'Saved.',
          ),
      ),
    ),
  );
  if (org !== undefined) page.append(makeOrganization(org, role, profile, change));
  page.append(
    makePanel(
      'Another organization',
      make(
        'p',
        { class: 'faint' },
        'With its own members, projects, keys, patterns and bill. You will own it.',
      ),
      makeForm([['name', 'Name', { required: true, maxlength: 100 }]], 'Make the organization', ({ name }) =>
        change(() => call('POST', '/organizations/', { name }), `${name} is made. Choose it in the menu.`),
      ),
    ),
  );
}

function makeOrganization(org, role, profile, change) {
  const leave = async () => {
    const isSure = await ask({
      heading: `Leave ${org.name}?`,
      text: 'Only an invitation brings you back.',
      button: 'Leave',
      is_dangerous: true,
    });
    if (isSure !== null) change(() => call('DELETE', `/organizations/${org.id}/members/${profile.id}`));
  };
  return makePanel(
    'This organization',
    make('p', { class: 'faint' }, `You are ${role} of ${org.name}. `, makeId(org.id)),
    isAtLeast(role, 'admin')
      ? makeForm(
          [['name', 'Name', { required: true, maxlength: 100, value: org.name }]],
          'Rename',
          ({ name }) => change(() => call('PATCH', `/organizations/${org.id}`, { name }), 'Renamed.'),
        )
      : null,
    makeButton('Leave this organization', leave),
  );
}

export async function fillFeedback(page, { act }) {
  const submit = ({ message }) => act(() => call('POST', '/feedback/', { message, page: '/' }), 'Thank you.');
  page.append(
    makeHead('Feedback', 'Read by whoever runs this server.'),
    makePanel(
      null,
      makeForm(
        [
          [
            'message',
            'What should be better?',
            { type: 'textarea', required: true, maxlength: 5000, rows: 6 },
          ],
        ],
        'Send',
        submit,
      ),
    ),
  );
}
