/**
 * Signs the dashboard's user in (exchanges a token for a cookie) and out (removes the cookie;
 * src/auth/page-session.ts). Server threads.
 */
import { clearCookie, refuseForeignPage, writeCookie } from '../auth/page-session.ts';
import type { ApiReply, ApiRequest, ApiRoute } from '../contract/route.ts';
import { SESSION } from '../contract/session.ts';
import { CatalogueError } from '../errors.ts';
import { checkInput, readInput, ViolationList } from '../http/validation.ts';
import { systemClock } from '../std/clock.ts';
import { type Checks, identify } from './pipeline.ts';

/** The address under which people reach the service. */
interface PublicPlace {
  /** null: not configured. */
  public_url: string | null;
  /** Whether its port uses TLS. */
  speaks_tls: boolean;
}

export function pageSessionRoutes(checks: Checks, place: PublicPlace): ApiRoute[] {
  const answer = (cookie: string): ApiReply => ({
    status: 204,
    headers: [
      ['set-cookie', cookie],
      ['cache-control', 'no-store'],
    ],
    body: '',
  });
  const start = async (request: ApiRequest): Promise<ApiReply> => {
    refuseForeignPage(request);
    const found = new ViolationList();
    const checked = checkInput(SESSION.startSession, readInput(SESSION.startSession, request, []), found);
    found.throwAny();
    const { token } = (checked as unknown as { body: { token: string } }).body;
    // An address with too many failures is refused, as on routes that take the header.
    const { address, method } = request;
    const headers = new Map([['authorization', `Bearer ${token}`]]);
    const principal = await identify({ method, headers, address }, checks);
    if (principal.type !== 'user')
      throw new CatalogueError('forbidden', 'The dashboard needs a user’s token; an API key cannot sign in');
    return answer(writeCookie(request, token, isSecure(request, place), systemClock.wallMs()));
  };
  const end = (request: ApiRequest): ApiReply => {
    refuseForeignPage(request);
    return answer(clearCookie(request, isSecure(request, place)));
  };
  return [
    { endpoint: SESSION.startSession, handle: start },
    { endpoint: SESSION.endSession, handle: end },
  ];
}

/**
 * Whether the client's connection uses TLS: the port uses TLS, a proxy in front of it says so, or the request
 * came to a public address with TLS.
 */
function isSecure({ headers }: ApiRequest, { public_url, speaks_tls }: PublicPlace): boolean {
  if (speaks_tls || headers.get('x-forwarded-proto')?.toLowerCase() === 'https') return true;
  return public_url?.toLowerCase() === `https://${headers.get('host')?.toLowerCase()}`;
}
