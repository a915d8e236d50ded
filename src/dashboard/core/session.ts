/**
 * The signed-in user, the selected organization, and the user's permissions in that organization. The session's token
 * is in a cookie that scripts cannot read. Browser.
 */
import { computed, signal } from '@preact/signals';
import { namedOrganization } from './address.ts';
import { ApiError, call, callList, send } from './api.ts';
import type { Reply } from './contract.ts';

type Bootstrap = Reply<'GET /auth/bootstrap'>;
type Organization = Bootstrap['organizations'][number];
export type Role = 'viewer' | 'member' | 'admin' | 'owner';

/** Facts about this server (src/api/dashboard.ts). */
interface ServerFacts {
  version: string;
  gateway_port: number | null;
  gateway_is_local: boolean;
  gateway_is_secure: boolean;
  has_live_stream: boolean;
  has_billing: boolean;
}

/** `starting`: the page does not know yet whether the reader is signed in. */
export const sessionState = signal<'starting' | 'signed_out' | 'signed_in'>('starting');
/** Why the reader must sign in, if there is a reason to show. */
export const signInReason = signal('');
/** null: not signed in. */
export const bootstrap = signal<Bootstrap | null>(null);
export const server = signal<ServerFacts | null>(null);
/** Whether the reader may see what the gateway captured. */
export const isOperator = signal(false);
/**
 * The organization to which the captures belong. null: none is set or known, so the captures are shown in every
 * organization that the operator owns or administers.
 */
const captureOrganization = signal<string | null>(null);

const ORGANIZATION = 'understudy-organization';
const ROLES: readonly Role[] = ['viewer', 'member', 'admin', 'owner'];
const TOKEN_BEFORE = 'understudy-token';

/**
 * The selected organization, the first of these that exists: the organization in the address, the last selected one,
 * the oldest that the reader created, the oldest of all. null: the reader is not signed in, or has no organization.
 */
export const organization = computed<Organization | null>(() => {
  const known = bootstrap.value;
  if (known === null) return null;
  const { organizations, profile } = known;
  const find = (id: string | null) => organizations.find((organization) => organization.id === id);
  // The list starts with the newest organization, but the reader expects their own, which is the oldest.
  const oldest = organizations.toReversed();
  const own = oldest.find(({ created_by }) => created_by === profile.id) ?? oldest[0];
  return find(namedOrganization.value) ?? find(localStorage.getItem(ORGANIZATION)) ?? own ?? null;
});

/** The role that was fetched last, and the organization in which the user has it. */
const roleRead = signal<{ org_id: string; role: Role } | null>(null);
/** The user's role in the selected organization; null: unknown, or no role. */
export const role = computed<Role | null>(() => {
  const read = roleRead.value;
  // The address may have selected another organization after the role was read.
  return read !== null && read.org_id === organization.value?.id ? read.role : null;
});

/**
 * Whether captured and reported runs are one list in the selected organization. The reader must be an operator. The
 * captures must belong to this organization; if captures belong to no organization, the reader must own or administer
 * this organization.
 */
export const seesCaptures = computed(() => {
  if (!isOperator.value) return false;
  const owner = captureOrganization.value;
  return owner === null ? isAtLeast('admin') : owner === organization.value?.id;
});

/**
 * Whether the role is at least `least`; false if the role is unknown. The page hides actions that the server would
 * refuse. The server decides what is allowed.
 */
export function isAtLeast(least: Role): boolean {
  return role.value !== null && ROLES.indexOf(role.value) >= ROLES.indexOf(least);
}

/** The roles that the reader can assign. */
export function rolesToGive(): Role[] {
  return ROLES.filter((role) => isAtLeast(role));
}

export function noteSignedOut(): void {
  if (sessionState.peek() === 'signed_in')
    signInReason.value =
      'You were signed out: the session has ended, your account was deleted, or the server’s secret has changed.';
  bootstrap.value = null;
  roleRead.value = null;
  isOperator.value = false;
  sessionState.value = 'signed_out';
}

/**
 * Asks the server whether the session is over, and if so, shows the sign-in page. Called when another tab may have
 * signed out, and after a 404: an operator's route answers 404 for missing data and to a reader without a session.
 */
export async function checkSession(): Promise<void> {
  if (sessionState.peek() !== 'signed_in') return;
  await call('GET /auth/me', {}).catch((thrown: unknown) => {
    if (thrown instanceof ApiError && thrown.status === 401) noteSignedOut();
  });
}

// Signing out in another tab removes the stored organization, so this tab checks its session.
addEventListener('storage', ({ key, newValue }) => {
  if (key === ORGANIZATION && newValue === null) void checkSession();
});

/** A link that would sign in another user than the present one. */
export interface OfferedSession {
  /** E-mail address of the signed-in user. */
  current: string;
  /** E-mail address of the link's user, from the server. */
  offered: string;
  /** true: signs in as the link's user; false: stays signed in. */
  decide: (takesIt: boolean) => void;
}

/** The question to the reader before a link replaces the session; null: no question. */
export const offeredSession = signal<OfferedSession | null>(null);

/**
 * The token of a link that is not used yet; null: none. The address no longer contains the token, which may be needed
 * for another attempt.
 */
let linkToken: string | null = null;

/**
 * Moves the token of a link (`/#token=…`, as the terminal shows it) from the address to `linkToken`, so that the
 * browser's history does not contain the token. Then opens the page that the link names with `next`.
 */
function takeLink(): void {
  const [, token] = /[#&]token=([^&]+)/.exec(location.hash) ?? [];
  if (token === undefined) return;
  linkToken = token;
  const next = /[#&]next=([^&]+)/.exec(location.hash)?.[1];
  history.replaceState(null, '', `/${next === undefined ? '' : `#/${decodeURIComponent(next)}`}`);
  dispatchEvent(new HashChangeEvent('hashchange'));
}

/**
 * Signs in with a link's token. Without a link, signs in with a token that an earlier release stored, if there is one.
 * Anyone may have sent the link. So the link replaces a session of another user only if the reader agrees: otherwise
 * the reader would work in the sender's account without noticing.
 * @throws ApiError
 */
async function useLink(): Promise<void> {
  // Earlier releases stored the token in the tab. Such a token still signs in, once.
  const former = sessionStorage.getItem(TOKEN_BEFORE);
  sessionStorage.removeItem(TOKEN_BEFORE);
  const token = linkToken;
  if (token === null) {
    if (former !== null) await startSession(former);
    return;
  }
  try {
    const [offered, current] = [await readUser(token), await readUser(null)];
    // An expired link is reported only to a reader who would have to sign in.
    const isIgnored = offered === null && current !== null;
    const isOther = offered !== null && current !== null && offered.id !== current.id;
    const isKept = isIgnored || (isOther && !(await askToReplace(current.email, offered.email)));
    if (!isKept) await startSession(token);
  } catch (thrown) {
    // The link is kept, because the caller tries again.
    if (thrown instanceof ApiError && thrown.passes) throw thrown;
    forgetLink(token);
    throw thrown;
  }
  forgetLink(token);
}

/** Drops this link's token, unless another link was opened after it. */
function forgetLink(token: string): void {
  if (linkToken === token) linkToken = null;
}

/** Reads the user of a token. @param token null: the session's token. @returns null if the token is not valid */
async function readUser(token: string | null): Promise<Reply<'GET /auth/me'> | null> {
  const headers = token === null ? {} : { authorization: `Bearer ${cleanToken(token)}` };
  try {
    const response = await send('GET /auth/me', { headers });
    return (await response.json()) as Reply<'GET /auth/me'>;
  } catch (thrown) {
    if (thrown instanceof ApiError && thrown.status === 401) return null;
    throw thrown;
  }
}

async function askToReplace(current: string, offered: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  // A new question replaces the question about an earlier link.
  offeredSession.peek()?.decide(false);
  const own: OfferedSession = { current, offered, decide: resolve };
  offeredSession.value = own;
  const takesIt = await promise;
  if (offeredSession.peek() === own) offeredSession.value = null;
  return takesIt;
}

/** Removes line breaks and spaces, which a pasted token may contain. */
function cleanToken(token: string): string {
  return token.replace(/[^\x21-\x7e]/g, '');
}

async function startSession(token: string): Promise<void> {
  await call('POST /auth/session', { body: { token: cleanToken(token) } });
}

/**
 * Finds out whether the reader is signed in, uses a link's token if there is one, and sets `sessionState`.
 * @throws ApiError if the server does not answer or the failure is temporary
 */
export async function openSession(): Promise<void> {
  takeLink();
  const hasLink = linkToken !== null;
  // The session and the facts about the server are read at the same time, because each page waits for both.
  const [refusal] = await Promise.all([enter(), readServerFacts()]);
  if (refusal === null) {
    sessionState.value = 'signed_in';
    return;
  }
  if (refusal.status !== 401) signInReason.value = refusal.message;
  else if (hasLink)
    signInReason.value =
      'This link is no longer valid: it has expired, the server has another secret, or its account was deleted.';
  noteSignedOut();
}

async function readServerFacts(): Promise<void> {
  try {
    server.value = (await (
      await fetch('/dashboard/config.json', { cache: 'no-cache' })
    ).json()) as ServerFacts;
  } catch {
    throw new ApiError(0, '');
  }
}

/**
 * Uses the link's token, if there is one, and reads the account.
 * @returns why the reader has no session; null: the reader has one
 * @throws ApiError for temporary failures
 */
async function enter(): Promise<ApiError | null> {
  try {
    await useLink();
    await reloadSession();
    return null;
  } catch (thrown) {
    if (!(thrown instanceof ApiError) || thrown.passes) throw thrown;
    return thrown;
  }
}

/** Reads the reader's account and memberships again. @throws ApiError */
export async function reloadSession(): Promise<void> {
  const account = call('GET /auth/bootstrap', {}).then((known) => {
    bootstrap.value = known;
    return readRole();
  });
  const [mayRead] = await Promise.all([readCaptureAccess(), account]);
  isOperator.value = mayRead;
}

/** Reads whether the reader is an operator, and the organization to which the captures belong. */
async function readCaptureAccess(): Promise<boolean> {
  const refuses = (thrown: unknown) => {
    if (!(thrown instanceof ApiError)) throw thrown;
    // Any other error means that the reader has access, even if the captures cannot be read now.
    return thrown.status === 404 || thrown.status === 401;
  };
  const stats = await call('GET /capture/stats', {}).catch((thrown: unknown) =>
    refuses(thrown) ? null : undefined,
  );
  captureOrganization.value = stats?.org_id ?? null;
  if (stats !== null) return true;
  // A service without a gateway has no stats, so the list of runs shows whether the reader has access.
  return call('GET /capture/runs', { query: { limit: 1 } }).then(
    () => true,
    (thrown: unknown) => !refuses(thrown),
  );
}

/** Reads the role in the selected organization, unless it is known. @throws ApiError */
export async function followRole(): Promise<void> {
  if (role.peek() === null) await readRole();
}

/**
 * Reads the user's role in the selected organization from the list of members. If the list does not contain the user,
 * takes the role in the answer of `GET /auth/bootstrap`.
 * @throws ApiError
 */
async function readRole(): Promise<void> {
  const known = bootstrap.peek();
  const org = organization.peek();
  if (known === null || org === null) return;
  localStorage.setItem(ORGANIZATION, org.id);
  for (let offset = 0; ; offset += 200) {
    const { rows } = await callList('GET /organizations/{org_id}/members', {
      params: { org_id: org.id },
      query: { limit: 200, offset },
    });
    const own = rows.find(({ user_id }) => user_id === known.profile.id);
    if (own !== undefined || rows.length < 200) {
      const told = own?.role ?? known.role;
      roleRead.value = told === null ? null : { org_id: org.id, role: told };
      return;
    }
  }
}

/** Signs in with a token that the reader has typed. @throws ApiError with the server's words for an invalid token */
export async function signIn(token: string): Promise<void> {
  await startSession(token);
  signInReason.value = '';
  await openSession();
}

export async function signOut(): Promise<void> {
  await call('DELETE /auth/session', {});
  localStorage.removeItem(ORGANIZATION);
  signInReason.value = '';
  bootstrap.value = null;
  sessionState.value = 'signed_out';
  location.hash = '';
}
