/** The frame around every page: the menu, the organization, the notice, dialogs. Browser. */
import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { address, chooseOrganization, hrefOf } from '../core/address.ts';
import { call } from '../core/api.ts';
import { isConnected } from '../core/connection.ts';
import { type Resource, useResource } from '../core/resource.ts';
import {
  bootstrap,
  followRole,
  isAtLeast,
  isOperator,
  offeredSession,
  organization,
  reloadSession,
  role,
  sessionState,
  signOut,
} from '../core/session.ts';
import { findPage, GROUPS, PAGES, type Page } from '../pages.ts';
import { PageHead, Time } from './basics.tsx';
import { DialogPlace } from './form.tsx';
import { Icon } from './icons.tsx';
import { act, clearNotice, Notice, notify } from './notice.tsx';
import { ReplaceSession, SignIn, Starting } from './sign-in.tsx';
import { Empty, Loaded } from './states.tsx';

/** Whether the menu is open on a narrow page, where it is a drawer. */
const isMenuOpen = signal(false);

export function App() {
  if (offeredSession.value !== null) return <ReplaceSession offered={offeredSession.value} />;
  if (sessionState.value === 'starting') return <Starting />;
  if (sessionState.value === 'signed_out' || bootstrap.value === null) return <SignIn />;
  return <Shell />;
}

function Shell() {
  const { page: name, selection } = address.value;
  const page = findPage(name);
  const org = organization.value;
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  const roleRead = useResource(`role ${org?.id}`, readOwnRole);
  useEffect(() => {
    document.title = `${page.title} · Understudy`;
    isMenuOpen.value = false;
    if (isFirst.current) {
      isFirst.current = false;
      return;
    }
    clearNotice();
    scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [page.name, selection, org?.id]);
  useEffect(() => {
    if (!location.search.includes('checkout=')) return;
    const isPaid = location.search.includes('checkout=success');
    history.replaceState(null, '', '/#/billing');
    dispatchEvent(new HashChangeEvent('hashchange'));
    if (isPaid) notify('Thank you. The plan changes as soon as the payment is confirmed.');
  }, []);
  return (
    <div class="shell">
      {/* biome-ignore lint/a11y/useValidAnchor: the address names the page already */}
      <a
        class="skip"
        href="#main"
        onClick={(event) => {
          // The link must not change the address, which names the page.
          event.preventDefault();
          main.current?.focus();
        }}
      >
        Skip to the content
      </a>
      <Menu current={page} />
      <div class="content">
        {isConnected.value ? null : (
          <p class="away" role="status">
            The server does not answer. This page continues by itself when the server is back.
          </p>
        )}
        <Notice />
        <Invitations />
        <main id="main" ref={main} tabIndex={-1}>
          <div class={`page page-${page.name}`}>
            <PageContent key={`${org?.id} ${page.name}`} page={page} roleRead={roleRead} />
          </div>
        </main>
      </div>
      <DialogPlace />
    </div>
  );
}

/** Reads the reader's role in the selected organization. @returns whether the reader has one */
async function readOwnRole(): Promise<boolean> {
  await followRole();
  return role.peek() !== null;
}

function PageContent({ page, roleRead }: { page: Page; roleRead: Resource<boolean> }) {
  const { Content } = page;
  // A user without an organization gets the settings, to make one.
  if (organization.value === null && page.needs !== 'nothing') {
    const { Content: Settings } = findPage('settings');
    return <Settings />;
  }
  // Pages hide parts depending on the role, so they wait until it is read. A change of the organization reads it again.
  if (organization.value !== null && role.value === null)
    return (
      <Loaded from={roleRead} lines={8} heading={page.title}>
        {() => (
          <>
            <PageHead title={page.title} />
            <Empty title="You have no role in this organization.">
              Choose another organization in the menu.
            </Empty>
          </>
        )}
      </Loaded>
    );
  if (page.needs === 'operator' && !isOperator.value) return <NotTheOperator title={page.title} />;
  return <Content />;
}

/** Shown to a reader who is not an operator and opens the address of an operator's page, for example a shared one. */
function NotTheOperator({ title }: { title: string }) {
  return (
    <>
      <PageHead title={title} />
      <Empty title="This page is for the operator of the service.">
        Captures may contain anything that agents and models wrote. Only operators and the admins of the
        organization that <code>GW_ORG</code> names may read them. An operator signs in by the link that the
        terminal showed at the start, or has an e-mail address that is listed in <code>OPERATORS</code>.
      </Empty>
    </>
  );
}

function Menu({ current }: { current: Page }) {
  const { organizations, profile } = bootstrap.value!;
  const org = organization.value;
  return (
    <header class={`side ${isMenuOpen.value ? 'open' : ''}`}>
      <div class="brand">
        <a href={hrefOf('')}>
          <img src="/dashboard/icon.svg" alt="" width={22} height={22} />
          Understudy
        </a>
        <button
          type="button"
          class="menu-button plain small"
          aria-expanded={isMenuOpen.value}
          aria-controls="menu"
          onClick={() => {
            isMenuOpen.value = !isMenuOpen.value;
          }}
        >
          Menu
        </button>
      </div>
      <div class="side-rest" id="menu">
        {org === null ? null : (
          <label class="organization">
            <span>Organization</span>
            <select value={org.id} onChange={(event) => chooseOrganization(event.currentTarget.value)}>
              {organizations.map(({ id, name }) => (
                <option key={id} value={id} selected={id === org.id}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        )}
        <PageLinks current={current} />
        <div class="account">
          <span title={profile.email}>{profile.display_name ?? profile.email}</span>
          <button type="button" class="quiet" onClick={() => act(signOut)}>
            Sign out
          </button>
        </div>
      </div>
    </header>
  );
}

/**
 * Whether the menu offers the page to this reader. A page that is not offered can be opened by its address, and then
 * says why its content is missing.
 */
function mayRead({ needs }: Page): boolean {
  if (needs === 'operator') return isOperator.value;
  return needs !== 'admin' || isAtLeast('admin');
}

function PageLinks({ current }: { current: Page }) {
  return (
    <nav aria-label="Pages">
      {GROUPS.map((group) => {
        const shown = PAGES.filter(
          (page) => page.group === group && page.is_hidden !== true && mayRead(page),
        );
        if (shown.length === 0) return null;
        return (
          <div key={group}>
            <p>{group}</p>
            {shown.map((page) => (
              <a
                key={page.name}
                href={hrefOf(page.name)}
                aria-current={page.name === current.name ? 'page' : undefined}
              >
                <Icon name={page.icon} />
                {page.title}
              </a>
            ))}
            {group === 'Help' ? (
              <>
                <a href="/docs/guides" target="_blank" rel="noreferrer">
                  <Icon name="docs" />
                  Guides
                </a>
                <a href="/docs" target="_blank" rel="noreferrer">
                  <Icon name="api" />
                  API reference
                </a>
              </>
            ) : null}
          </div>
        );
      })}
    </nav>
  );
}

/** Shows the first invitation to the reader, and the number of further ones. */
function Invitations() {
  const [first, ...others] = bootstrap.value!.invitations;
  if (first === undefined) return null;
  const accept = () =>
    act(async () => {
      await call('POST /organizations/invitations/{invitation_id}/accept', {
        params: { invitation_id: first.id },
      });
      await reloadSession();
      chooseOrganization(first.org_id);
    }, `You have joined ${first.organization_name}.`);
  return (
    <div class="notice invitation">
      <span>
        {first.inviter_name || 'A member'} invites you to join <b>{first.organization_name}</b> as{' '}
        {first.role}. The invitation ends <Time at={first.expires_at} />
        {others.length > 0 ? ` (${others.length} more after this one)` : ''}.
      </span>
      <button type="button" class="main small" onClick={accept}>
        Accept
      </button>
    </div>
  );
}
