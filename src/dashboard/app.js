/** The dashboard put together: signing in, choosing the organization and the section. Browser. */
import {
  keepFocus,
  make,
  makeButton,
  makeForm,
  makeHead,
  makeId,
  makeSnippet,
  makeTime,
} from './elements.js';
import { SECTIONS } from './sections.js';
import {
  call,
  forget,
  isSignedIn,
  lastOrganization,
  rememberOrganization,
  signIn,
  signOut,
  takeToken,
  withQuery,
} from './session.js';

const at = (id) => document.getElementById(id);
let shown = new AbortController();
/** Organization and section that `main` shows. */
let filled = '';
/** What /auth/bootstrap said. */
let bootstrap = null;
let orgId;
/** What this server has: /dashboard/config.json. */
let server = {};

/** @param said a text or what holds one; '' takes away what was said last */
function notify(said, isFailure = false, ...actions) {
  const notice = at('notice');
  const hadFocus = notice.contains(document.activeElement);
  const close = makeButton('×', () => notify(''), 'quiet');
  close.setAttribute('aria-label', 'Close');
  notice.replaceChildren(make('span', {}, said), ...actions, close);
  notice.className = isFailure ? 'failed' : '';
  notice.hidden = said === '';
  if (hadFocus) at('main').focus({ preventScroll: true });
}

/** Does something for the user, shows the section again, and says what went wrong. */
async function act(work, said = '') {
  const giveFocusBack = keepFocus(at('main'));
  try {
    notify('');
    await work();
    await showSection();
    giveFocusBack();
    notify(said);
  } catch (thrown) {
    fail(thrown);
  }
}

function fail(thrown) {
  if (thrown.name === 'AbortError') return undefined;
  if (thrown.status === 401) {
    signOut();
    return start('You were signed out: the token has ended, or is not of this server. Sign in again.');
  }
  const isAway = thrown.status === 0 || thrown.status === 503;
  const again = makeButton('Try again', () => start(), 'plain small');
  return notify(thrown.message, true, ...(isAway ? [again] : []));
}

/** Who belongs to no organization can only make one. */
function sectionName() {
  if (orgId === undefined) return 'settings';
  // Back from the payment processor's page.
  if (location.search.includes('checkout=')) history.replaceState(null, '', '/#billing');
  const name = location.hash.slice(1);
  return Object.hasOwn(SECTIONS, name) ? name : 'overview';
}

/** The user's role where they look: of the default organization bootstrap knows it, of others the list of members. */
async function findRole(org) {
  if (org === undefined) return null;
  for (let offset = 0; ; offset += 200) {
    const members = await call('GET', withQuery(`/organizations/${org.id}/members`, { limit: 200, offset }));
    const own = members.find(({ user_id }) => user_id === bootstrap.profile.id);
    if (own !== undefined) return own.role;
    if (members.length < 200) return bootstrap.role;
  }
}

async function showSection() {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const name = sectionName();
  for (const link of at('tabs').querySelectorAll('a')) {
    if (link.getAttribute('href') !== `#${name}`) link.removeAttribute('aria-current');
    else {
      link.setAttribute('aria-current', 'page');
      link.scrollIntoView({ block: 'nearest', inline: 'nearest' });
    }
  }
  const { heading, fill } = SECTIONS[name];
  document.title = `${heading} · Understudy`;
  const org = bootstrap.organizations.find(({ id }) => id === orgId);
  const main = at('main');
  main.setAttribute('aria-busy', 'true');
  const sought = `${orgId} ${name}`;
  try {
    const role = await findRole(org);
    const page = make('div', { class: 'section' });
    const context = { org, role, profile: bootstrap.profile, server, act, load, notify, fail, signal };
    await fill(page, context);
    if (signal.aborted) return;
    main.replaceChildren(page);
    filled = sought;
  } catch (thrown) {
    // What was there before must not stand under another name.
    if (!signal.aborted && filled !== sought) {
      main.replaceChildren(make('div', { class: 'section' }, makeHead(heading)));
      filled = sought;
    }
    throw thrown;
  } finally {
    if (!signal.aborted) main.removeAttribute('aria-busy');
  }
}

function showInvitations() {
  const accept = ({ id }) =>
    act(async () => {
      await call('POST', `/organizations/invitations/${id}/accept`);
      await load();
    }, 'You have joined. Choose the organization in the menu.');
  const [first, ...others] = bootstrap.invitations;
  if (first === undefined) return;
  const more = others.length > 0 ? ` (${others.length} more after this one)` : '';
  notify(
    make(
      'span',
      {},
      `${first.inviter_name || 'Somebody'} invites you to join ${first.organization_name} as ${first.role}. The invitation ends `,
      makeTime(first.expires_at),
      more,
      '. ',
      makeId(first.org_id),
    ),
    false,
    makeButton('Accept', () => accept(first), 'main small'),
  );
}

async function load() {
  const [booted, config] = await Promise.all([
    call('GET', '/auth/bootstrap'),
    fetch('/dashboard/config.json')
      .then((response) => response.json())
      .catch(() => ({})),
  ]);
  bootstrap = booted;
  server = config;
  const { organizations, profile } = bootstrap;
  const known = (id) => organizations.find((one) => one.id === id)?.id;
  // The newest come first; one's own and oldest is what one expects to see.
  const oldest = organizations.toReversed();
  const own = oldest.find(({ created_by }) => created_by === profile.id) ?? oldest[0];
  orgId = known(orgId) ?? known(lastOrganization()) ?? own?.id;
  at('organization').replaceChildren(
    ...organizations.map(({ id, name }) => make('option', { value: id, selected: id === orgId }, name)),
  );
  at('organization').parentElement.hidden = orgId === undefined;
  at('who').textContent = profile.display_name ?? profile.email;
  at('who').title = profile.email;
  const sections = Object.entries(SECTIONS);
  const groups = [...new Set(sections.map(([, { group }]) => group))];
  const links = groups.map((group) =>
    make(
      'div',
      {},
      make('p', {}, group),
      sections
        .filter(([, one]) => one.group === group)
        .map(([name, { heading }]) => make('a', { href: `#${name}` }, heading)),
      group === 'Help' ? make('a', { href: '/docs', target: '_blank' }, 'API reference') : null,
    ),
  );
  at('tabs').replaceChildren(...links);
  at('side').hidden = false;
}

function showSignIn() {
  at('side').hidden = true;
  filled = '';
  document.title = 'Sign in · Understudy';
  const submit = ({ token }) => {
    signIn(token);
    return start();
  };
  const field = { type: 'password', required: true, autocomplete: 'off', spellcheck: 'false' };
  at('main').replaceChildren(
    make(
      'div',
      { class: 'sign-in' },
      make('img', { src: '/dashboard/icon.svg', alt: '', width: 40, height: 40 }),
      make('h1', {}, 'Sign in to Understudy'),
      make('p', {}, 'Open the link that the terminal shows at the start, or paste a token.'),
      makeForm([['token', 'Token', field]], 'Sign in', submit),
      make(
        'p',
        { class: 'faint' },
        'Without an identity provider, whoever runs the server makes tokens there:',
      ),
      makeSnippet('npx understudy token --email you@example.com', 'Command that makes a token'),
    ),
  );
  at('main').removeAttribute('aria-busy');
  at('main').querySelector('input').focus();
}

async function start(reason = '') {
  shown.abort();
  notify(reason, reason !== '');
  if (!isSignedIn()) return showSignIn();
  try {
    const isPaid = location.search.includes('checkout=success');
    await load();
    await showSection();
    showInvitations();
    if (isPaid) notify('Thank you. The plan changes as soon as the payment is confirmed.');
  } catch (thrown) {
    fail(thrown);
    if (bootstrap === null && isSignedIn()) at('main').replaceChildren();
  }
}

at('skip').addEventListener('click', (event) => {
  // The address names the section: it stays.
  event.preventDefault();
  at('main').focus();
});
at('sign-out').addEventListener('click', () => {
  forget();
  bootstrap = null;
  orgId = undefined;
  start();
});
at('organization').addEventListener('change', (event) => {
  orgId = event.target.value;
  rememberOrganization(orgId);
  notify('');
  showSection().catch(fail);
});
addEventListener('hashchange', () => {
  if (location.hash.includes('token=')) {
    takeToken();
    start();
  } else if (isSignedIn() && bootstrap !== null) {
    notify('');
    showSection().catch(fail);
    scrollTo(0, 0);
  }
});
takeToken();
start();
