/**
 * Finds the route of a request and makes the answer. Errors, including 404 and 405, are answered with `{"detail": …}`.
 * Server threads.
 */
import { pathsOf } from '../contract/endpoint.ts';
import {
  type ApiReply,
  type ApiRequest,
  type ApiRoute,
  jsonReply,
  type RequestHeaders,
} from '../contract/route.ts';
import { SchemaViolation } from '../contract/violation.ts';
import { CatalogueError, toApiBody, toCatalogueError } from '../errors.ts';
import { type AllowedHosts, FOREIGN_HOST } from '../http/allowed-hosts.ts';
import { type CorsPolicy, FOREIGN_ORIGIN } from '../http/cors.ts';
import { newUlid } from '../std/id.ts';

/** A request before its route is known. */
interface UnroutedRequest extends Omit<ApiRequest, 'params' | 'address'> {
  /** Address of the client; '' if unknown. */
  address?: string;
  /** The body exceeds the cap and was not read. */
  oversized?: boolean;
  /** The body was dropped before all of it had arrived, to make room for other bodies. */
  crowded_out?: boolean;
}

/** Receives every failure for which {@link isOurs} holds, with its cause. The caller gets only the catalogue's text. */
type ReportFailure = (error: CatalogueError, request: UnroutedRequest, requestId: string) => void;

/**
 * Describes an answered request for log and metrics. Only two values in it may come from the caller: the
 * method, and a request id that the caller chose.
 */
export interface Answered {
  request_id: string;
  method: string;
  /** The endpoint's id; null if no route matched. */
  route: string | null;
  status: number;
  duration_ms: number;
}

/** The checks and headers of a box whose rows are shared with other boxes. */
export interface SharedAccess {
  /**
   * Called before a request is handled.
   * @returns a promise if the request must wait until this box shows the position that the client
   * has seen on another box; null: the request need not wait
   * @throws CatalogueError `unavailable` if the rows are too old
   */
  admit(request: Pick<UnroutedRequest, 'headers' | 'query'>): Promise<unknown> | null;
  /** Returns the headers of every answer that describe the position and age of the rows. */
  describe(): readonly (readonly [string, string])[];
}

interface DispatchOptions {
  report: ReportFailure;
  /** Receives every request when its answer is known. */
  observe?: (answered: Answered) => void;
  /** Origins whose pages may call the API; absent: no other origin. */
  cors?: CorsPolicy;
  /** The checks and headers of a box that shares its database; absent: this box shares none. */
  shared?: SharedAccess;
  /** Host names under which requests without a credential are answered; absent: any. */
  hosts?: AllowedHosts;
}

export type ApiDispatch = (request: UnroutedRequest) => ApiReply | Promise<ApiReply>;

/** Identifiers that callers may choose for their requests; others are replaced. */
const REQUEST_ID = /^[\w.:/+=-]{1,128}$/;

/**
 * Prepares the table of routes.
 * @returns a function that answers requests; it neither throws nor rejects
 */
export function compileDispatch(routes: readonly ApiRoute[], options: DispatchOptions): ApiDispatch {
  const router = new Router(routes);
  const { report, observe, cors, hosts, shared } = options;
  return (request) => {
    const startedMs = performance.now();
    const chosen = request.headers.get('x-request-id');
    const requestId = chosen !== undefined && REQUEST_ID.test(chosen) ? chosen : newUlid();
    let route: ApiRoute | null = null;

    const finish = (reply: ApiReply): ApiReply => {
      if (reply.failure !== undefined && isOurs(reply.failure)) report(reply.failure, request, requestId);
      observe?.({
        request_id: requestId,
        method: request.method,
        route: route === null ? null : route.endpoint.id,
        status: reply.status,
        duration_ms: performance.now() - startedMs,
      });
      const headers = reply.headers.slice();
      headers.push(['x-request-id', requestId]);
      if (shared !== undefined) headers.push(...shared.describe());
      if (cors !== undefined) headers.push(...cors.headersFor(request.headers.get('origin')));
      const { status, body, stream } = reply;
      return stream === undefined ? { status, headers, body } : { status, headers, body, stream };
    };
    const fail = (thrown: unknown): ApiReply => {
      const { cause, headers } = thrown instanceof FailedCall ? thrown : { cause: thrown, headers: [] };
      const error = cause instanceof SchemaViolation ? cause : toCatalogueError(cause);
      if (error instanceof CatalogueError && isOurs(error)) report(error, request, requestId);
      const reply = renderError(error, () => router.allowed(request.path));
      return finish({ ...reply, headers: [...reply.headers, ...headers] });
    };

    try {
      const preflight = cors?.answerPreflight(request.method, request.headers);
      if (preflight != null) return finish(preflight);
      if (request.oversized === true) throw new CatalogueError('body_too_large');
      if (request.crowded_out === true)
        throw new CatalogueError('unavailable', 'Too many large requests at once');
      const match = router.find(request.method, request.path);
      route = match.route;
      if (hosts !== undefined && !isWelcome(request, route, hosts)) {
        throw new CatalogueError('foreign_host', FOREIGN_HOST);
      }
      if (route.endpoint.listed_origins === true && !isListed(request, cors)) {
        throw new CatalogueError('forbidden', FOREIGN_ORIGIN);
      }
      const chosenRoute = match.route;
      const waits = shared?.admit(request) ?? null;
      if (waits !== null) {
        // `RoutedRequest` reads the address before the wait (except for `bearer` endpoints), because the address is
        // lost when the connection closes.
        const routed = new RoutedRequest(request, match);
        return waits.then(() => chosenRoute.handle(routed)).then(finish, fail);
      }
      const reply = chosenRoute.handle(new RoutedRequest(request, match));
      return reply instanceof Promise ? reply.then(finish, fail) : finish(reply);
    } catch (thrown) {
      return fail(thrown);
    }
  };
}

/**
 * Whether the host name of a request is accepted. A web page that points its own host name at this address (DNS
 * rebinding) has no credential. A caller with a credential may use any host name, because agents use names of their
 * network; a wrong credential is refused later. On a route that checks no credential, a credential proves nothing,
 * because a page can send any header.
 */
function isWelcome({ headers }: UnroutedRequest, { endpoint }: ApiRoute, hosts: AllowedHosts): boolean {
  if (endpoint.any_host === true || hosts.allows(headers.get('host'))) return true;
  const isChecked = endpoint.auth !== 'open' || endpoint.checks_credential === true;
  return isChecked && headers.has('authorization');
}

function isListed({ headers }: UnroutedRequest, cors: CorsPolicy | undefined): boolean {
  const origin = headers.get('origin');
  return cors === undefined ? origin === undefined : cors.allows(origin);
}

class RoutedRequest implements ApiRequest {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: RequestHeaders;
  readonly body: Uint8Array;
  readonly params: Readonly<Record<string, string>>;
  readonly #unrouted: UnroutedRequest;
  readonly #address: string | null;

  constructor(unrouted: UnroutedRequest, { route, params }: Match) {
    this.method = unrouted.method;
    this.path = unrouted.path;
    this.query = unrouted.query;
    this.headers = unrouted.headers;
    this.body = unrouted.body;
    this.params = params;
    this.#unrouted = unrouted;
    // The checks of a `bearer` endpoint read the address only if a credential is refused.
    this.#address = route.endpoint.auth === 'bearer' ? null : (unrouted.address ?? '');
  }

  get address(): string {
    return this.#address ?? this.#unrouted.address ?? '';
  }
}

/** A failure, with the headers that earlier checks of the request add to every answer. */
export class FailedCall extends Error {
  override readonly cause: CatalogueError;
  readonly headers: ApiReply['headers'];

  constructor(cause: CatalogueError, headers: ApiReply['headers']) {
    super(cause.message);
    this.name = 'FailedCall';
    this.cause = cause;
    this.headers = headers;
  }
}

/**
 * Whether a failure is reported to the log: all internal failures, and 5xx answers with a cause,
 * which the caller does not see.
 */
function isOurs(error: CatalogueError): boolean {
  return error.code === 'internal' || (error.status >= 500 && error.cause !== undefined);
}

/**
 * Makes the answer that reports an error.
 * @param allowed lists the methods of the path; called only for a 405
 */
export function renderError(error: CatalogueError | SchemaViolation, allowed?: () => string[]): ApiReply {
  if (error instanceof SchemaViolation) return jsonReply(422, { detail: error.violations });
  const headers: [string, string][] = [];
  if (error.code === 'method_not_allowed' && allowed !== undefined) {
    headers.push(['allow', allowed().join(', ')]);
  }
  // Name the only accepted encoding (RFC 9110, section 15.5.16).
  if (error.code === 'encoded_body') headers.push(['accept-encoding', 'identity']);
  // Name the scheme of the missing credential (RFC 6750, section 3).
  if (error.code === 'unauthenticated') headers.push(['www-authenticate', 'Bearer']);
  if (error.retryable) headers.push(['retry-after', '1']);
  return jsonReply(error.status, toApiBody(error), headers);
}

/** The route and the parameters of a path. Requests with the same path and method may share this object. */
interface Match {
  readonly route: ApiRoute;
  readonly params: Readonly<Record<string, string>>;
}

/** One level of the table: the possible segments between two slashes. */
interface Segment {
  literals: Map<string, Segment>;
  /** `{name}`: any one segment. */
  parameter: Segment | null;
  /** Routes of paths that end with this segment, by method. */
  ends: Map<string, End>;
}

interface End {
  route: ApiRoute;
  /** The path's parameters with the indexes of their segments. */
  params: readonly (readonly [name: string, at: number])[];
}

/** Maximum number of resolved paths that are cached, because all steps of a run use the same path. Beyond it, all are dropped. */
const KNOWN_PATHS = 256;
/** Longer paths are not cached. */
const KNOWN_PATH_CHARACTERS = 256;

/** The table, prepared for look-ups. */
export class Router {
  readonly #root: Segment = openSegment();
  readonly #known = new Map<string, { method: string; match: Match }>();

  /** @throws Error for two routes with one method and one path */
  constructor(routes: readonly ApiRoute[]) {
    for (const route of routes) {
      for (const path of pathsOf(route.endpoint)) this.#add(path, route);
    }
  }

  /**
   * Finds the route of a request. A HEAD is answered like a GET (the server omits the body), and a trailing slash is
   * ignored. As in OpenAPI, a literal segment takes precedence over a parameter, whatever the method.
   * @throws CatalogueError `not_found`, or `method_not_allowed` for a path with other methods
   */
  find(method: string, path: string): Match {
    const known = this.#known.get(path);
    if (known !== undefined && known.method === method) return known.match;
    const match = this.#find(method, path);
    if (path.length <= KNOWN_PATH_CHARACTERS) {
      if (this.#known.size >= KNOWN_PATHS) this.#known.clear();
      this.#known.set(path, { method, match });
    }
    return match;
  }

  #find(method: string, path: string): Match {
    const steps = splitPath(path);
    const wanted = method === 'HEAD' ? 'GET' : method;
    const entry = findPath(this.#root, steps, 1)?.ends.get(wanted);
    if (entry !== undefined) return { route: entry.route, params: readParams(entry, steps) };
    throw new CatalogueError(this.allowed(path).length > 0 ? 'method_not_allowed' : 'not_found');
  }

  /** Lists the methods of a path for the header `Allow`, except for methods of operators' routes. */
  allowed(path: string): string[] {
    const methods: string[] = [];
    for (const [method, { route }] of findPath(this.#root, splitPath(path), 1)?.ends ?? []) {
      // An operator's route does not exist for other callers, so its methods are not listed.
      if (route.endpoint.auth === 'operator') continue;
      methods.push(method);
      if (method === 'GET') methods.push('HEAD');
    }
    return methods;
  }

  #add(path: string, route: ApiRoute): void {
    let segment = this.#root;
    const params: [string, number][] = [];
    for (const [at, step] of path.split('/').entries()) {
      if (at === 0) continue;
      const name = /^\{(\w+)\}$/.exec(step)?.[1];
      if (name === undefined) {
        if (!segment.literals.has(step)) segment.literals.set(step, openSegment());
        segment = segment.literals.get(step)!;
      } else {
        params.push([name, at]);
        segment.parameter ??= openSegment();
        segment = segment.parameter;
      }
    }
    const { method, id } = route.endpoint;
    const other = segment.ends.get(method);
    if (other !== undefined) {
      throw new Error(`${id} and ${other.route.endpoint.id} are both ${method} ${path}`);
    }
    segment.ends.set(method, { route, params });
  }
}

function openSegment(): Segment {
  return { literals: new Map(), parameter: null, ends: new Map() };
}

/**
 * Splits a path at its slashes. The first segment is the empty one before the first slash; the empty segment after a
 * trailing slash is removed.
 */
function splitPath(path: string): string[] {
  const steps = path.split('/');
  if (steps.length > 2 && steps.at(-1) === '') steps.pop();
  return steps;
}

/**
 * Finds where the segments from `at` on lead in the table. Literals take precedence over parameters.
 * @returns null if no route has this path
 */
function findPath(segment: Segment, steps: readonly string[], at: number): Segment | null {
  if (at === steps.length) return segment.ends.size > 0 ? segment : null;
  const step = steps[at]!;
  const literal = segment.literals.get(step);
  const found = literal === undefined ? null : findPath(literal, steps, at + 1);
  if (found !== null || segment.parameter === null || step === '') return found;
  return findPath(segment.parameter, steps, at + 1);
}

function readParams({ params }: End, steps: readonly string[]): Record<string, string> {
  const values: Record<string, string> = {};
  for (const [name, at] of params) values[name] = decodeSegment(steps[at]!);
  return values;
}

/**
 * Decodes a percent-encoded segment.
 * @throws CatalogueError `not_found` for a segment that is not percent-encoded UTF-8, because no name contains such
 *   bytes
 */
function decodeSegment(segment: string): string {
  // The server represents each byte as one character.
  const text = /[^\0-\x7f]/.test(segment) ? Buffer.from(segment, 'latin1').toString() : segment;
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    throw new CatalogueError('not_found');
  }
}
