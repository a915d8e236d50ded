/** The dashboard put together: signing in, choosing the organization and the section. Browser. */
import { make, makeButton, makeForm } from './elements.js';
import { SECTIONS, when } from './sections.js';
import { call, isSignedIn, signIn, signOut, takeToken } from './session.js';

const at = (id) => document.getElementById(id);
let shown = new AbortController();
/** What /auth/bootstrap said. */
let bootstrap = null;
let orgId = null;

function notify(text, isFailure = false) {
  const notice = at('notice');
  notice.textContent = text;
  notice.className = isFailure ? 'failed' : '';
  notice.hidden = text === '';
}

/** Does something for the user, shows the section again, and says what went wrong. */
async function act(work, { keep } = {}) {
  try {
    notify('');
    await work();
    await showSection(keep);
  } catch (thrown) {
    fail(thrown);
  }
}

function fail(thrown) {
  if (thrown.name === 'AbortError') return;
  if (thrown.status === 401) {
    signOut();
    return start('The token does not hold (any more). Sign in again.');
  }
  notify(thrown.message, true);
}

/** Who belongs to no organization can only make one. */
const sectionName = () => {
  if (orgId === undefined) return 'settings';
  return Object.hasOwn(SECTIONS, location.hash.slice(1)) ? location.hash.slice(1) : 'overview';
};

/** @param keep an element that stands on the new page, too: a key that is shown once */
async function showSection(keep) {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const name = sectionName();
  for (const link of at('tabs').children) {
    if (link.getAttribute('href') === `#${name}`) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  const org = bootstrap.organizations.find(({ id }) => id === orgId);
  const page = make('div');
  if (keep) page.append(keep);
  const { profile } = bootstrap;
  const filling = SECTIONS[name][1](page, { org, profile, act, load, notify, signal });
  // The live section never ends: it is on the page while it fills.
  if (name !== 'live') await filling;
  if (!signal.aborted) at('main').replaceChildren(page);
  await filling;
}

function showInvitations() {
  const accept = (invitation) =>
    act(async () => {
      await call('POST', `/organizations/invitations/${invitation.id}/accept`);
      await load();
    });
  if (bootstrap.invitations.length === 0) return;
  notify('You are invited: ');
  at('notice').append(
    ...bootstrap.invitations.map((invitation) =>
      makeButton(`Accept as ${invitation.role} (until ${when(invitation.expires_at)})`, () =>
        accept(invitation),
      ),
    ),
  );
}

async function load() {
  bootstrap = await call('GET', '/auth/bootstrap');
  orgId = bootstrap.organizations.some(({ id }) => id === orgId) ? orgId : bootstrap.organizations[0]?.id;
  const select = at('organization');
  select.replaceChildren(
    ...bootstrap.organizations.map(({ id, name }) =>
      make('option', { value: id, selected: id === orgId }, name),
    ),
  );
  select.hidden = orgId === undefined;
  at('who').textContent = bootstrap.profile.display_name ?? bootstrap.profile.email;
  at('tabs').replaceChildren(
    ...Object.entries(SECTIONS).map(([name, [heading]]) => make('a', { href: `#${name}` }, heading)),
  );
  at('sign-out').hidden = false;
}

async function start(reason = '') {
  shown.abort();
  notify(reason, reason !== '');
  if (!isSignedIn()) {
    for (const id of ['organization', 'sign-out']) at(id).hidden = true;
    for (const id of ['tabs', 'who']) at(id).replaceChildren();
    const submit = ({ token }) => {
      signIn(token);
      start();
    };
    at('main').replaceChildren(
      make('h2', {}, 'Sign in'),
      make(
        'p',
        {},
        'Paste a token. Without an identity provider, make one on the machine that runs Understudy:',
      ),
      make('code', { class: 'secret' }, 'npx understudy token --email you@example.com'),
      makeForm(
        [['token', 'Token', { type: 'password', required: true, autocomplete: 'off' }]],
        'Sign in',
        submit,
      ),
    );
    return;
  }
  try {
    await load();
    showInvitations();
    await showSection();
  } catch (thrown) {
    fail(thrown);
  }
}

at('sign-out').addEventListener('click', () => {
  signOut();
  start();
});
at('organization').addEventListener('change', (event) => {
  orgId = event.target.value;
  showSection().catch(fail);
});
addEventListener('hashchange', () => {
  takeToken();
  if (isSignedIn() && bootstrap !== null) showSection().catch(fail);
});
takeToken();
start();
