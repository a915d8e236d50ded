/**
 * The dashboard's session: a signed-in user's token in a cookie that no script can read (HttpOnly) and that no page of
 * another site can send (SameSite=Strict). Pages of the same site with another port or name are recognized by the
 * headers that browsers add, and refused. The token in the cookie must pass every check of a token. Server threads.
 */
import { decodeJwt } from 'jose';
import { CatalogueError } from '../errors.ts';

/**
 * Maximum length of a token in the dashboard's cookie. Browsers keep 4,096 characters of a cookie, name and attributes
 * included.
 */
const SESSION_COOKIE_CHARACTERS = 3_900;

/** Parts of a request. Header names in lower case. */
interface Asked {
  method: string;
  headers: { get(name: string): string | undefined };
}

/** The characters that a cookie value may have (RFC 6265, 4.1.1). */
const TOKEN = /^[\w.~+/=-]+$/;

/** Cookies do not depend on ports: with the same name, two services on one machine would sign each other out. */
function nameCookie({ headers }: Asked): string {
  const [, port = ''] = /:(\d+)$/.exec(headers.get('host') ?? '') ?? [];
  return port === '' ? 'understudy_session' : `understudy_session_${port}`;
}

/**
 * Finds the credential of a request.
 * @returns the value of `Authorization`, otherwise the session's token in the same form; undefined if the request has
 *   neither, or if it is a GET or HEAD with a session from a page of another or an unknown origin
 * @throws CatalogueError `cross_site` for any other request with a session from such a page
 */
export function authorizationOf(request: Asked): string | undefined {
  const { headers } = request;
  const authorization = headers.get('authorization');
  if (authorization !== undefined) return authorization;
  const token = readCookie(request);
  if (token === undefined) return undefined;
  if (isOwnPage(request)) return `Bearer ${token}`;
  if (request.method === 'GET' || request.method === 'HEAD') return undefined;
  throw crossSite();
}

/**
 * Refuses requests of pages of another origin, which must not sign users in or out.
 * @throws CatalogueError `cross_site`
 */
export function refuseForeignPage(request: Asked): void {
  if (!isOwnPage(request)) throw crossSite();
}

function crossSite(): CatalogueError {
  return new CatalogueError('cross_site', "Only the dashboard's own page may use its session");
}

/**
 * Browsers report the origin with every request to a trustworthy address (Fetch Metadata); without TLS, they send at
 * least `Origin` with everything except plain GETs.
 */
function isOwnPage({ method, headers }: Asked): boolean {
  const site = headers.get('sec-fetch-site');
  if (site !== undefined) return site === 'same-origin' || (site === 'none' && method === 'GET');
  const origin = headers.get('origin')?.toLowerCase();
  if (origin === undefined) return method === 'GET' || method === 'HEAD';
  const host = headers.get('host')?.toLowerCase();
  return origin === `http://${host}` || origin === `https://${host}`;
}

function readCookie(request: Asked): string | undefined {
  const cookies = request.headers.get('cookie');
  if (cookies === undefined) return undefined;
  const name = `${nameCookie(request)}=`;
  for (const cookie of cookies.split(/; ?/)) if (cookie.startsWith(name)) return cookie.slice(name.length);
  return undefined;
}

/**
 * Writes the cookie that begins a session.
 * @param token already verified
 * @param isSecure the page was loaded over TLS
 * @returns the value of `Set-Cookie`
 * @throws CatalogueError `body_too_large` for a token that is too long for a cookie, or has characters that no cookie may
 *   have
 */
export function writeCookie(request: Asked, token: string, isSecure: boolean, nowMs: number): string {
  if (token.length > SESSION_COOKIE_CHARACTERS || !TOKEN.test(token))
    throw new CatalogueError(
      'body_too_large',
      'The token is too long for a session cookie, or has characters that cookies cannot have',
    );
  const { exp = 0 } = decodeJwt(token);
  const age_s = Math.max(0, Math.floor(exp - nowMs / 1_000));
  return formatCookie(nameCookie(request), token, age_s, isSecure);
}

/** Returns the value of `Set-Cookie` that ends the session. */
export function clearCookie(request: Asked, isSecure: boolean): string {
  return formatCookie(nameCookie(request), '', 0, isSecure);
}

function formatCookie(name: string, value: string, age_s: number, isSecure: boolean): string {
  const secure = isSecure ? '; Secure' : '';
  return `${name}=${value}; Path=/; Max-Age=${age_s}; HttpOnly; SameSite=Strict${secure}`;
}
