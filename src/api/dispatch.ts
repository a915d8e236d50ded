/** From a request to the answer of its route: matching, 404, 405, and errors as `{"detail": …}`. Server threads. */
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
  /** '' where it is not known. */
  address?: string;
  /** The body is beyond the cap and was not read. */
  oversized?: boolean;
  /** The body had to make room for others before all of it was there. */
  crowded_out?: boolean;
}

/** Told of every failure that is ours, its cause included; a caller reads the catalogue's words. */
type ReportFailure = (error: CatalogueError, request: UnroutedRequest, requestId: string) => void;

/** What is known of an answered request: nothing that a caller could have hidden a secret in. */
export interface Answered {
  request_id: string;
  method: string;
  /** The endpoint's id; null where no route was found. */
  route: string | null;
  status: number;
  duration_ms: number;
}

interface DispatchOptions {
  report: ReportFailure;
  /** Told of every request once its answer is known. */
  observe?: (answered: Answered) => void;
  /** Which pages may call; without it none. */
  cors?: CorsPolicy;
  /** Under which host names requests without a credential are answered; without it under any. */
  hosts?: AllowedHosts;
}

export type ApiDispatch = (request: UnroutedRequest) => ApiReply | Promise<ApiReply>;

/** Identifiers that callers may choose for their requests; others are replaced. */
const REQUEST_ID = /^[\w.:/+=-]{1,128}$/;

/** @returns answers a request; neither throws nor rejects */
export function compileDispatch(routes: readonly ApiRoute[], options: DispatchOptions): ApiDispatch {
  const router = new Router(routes);
  const { report, observe, cors, hosts } = options;
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
      const reply = route.handle(new RoutedRequest(request, match));
      return reply instanceof Promise ? reply.then(finish, fail) : finish(reply);
    } catch (thrown) {
      return fail(thrown);
    }
  };
}

/**
 * A page that reached this address by the page's own name knows no credential (DNS rebinding). A caller that has one may use any
 * name for the service: agents use names of their network. That holds where the credential is checked, and a wrong one is
 * refused later. On open routes the header proves nothing: a page can send any.
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
    // The checks of a `bearer` endpoint look at it only where a credential fails, which they find out at once.
    this.#address = route.endpoint.auth === 'bearer' ? null : (unrouted.address ?? '');
  }

  get address(): string {
    return this.#address ?? this.#unrouted.address ?? '';
  }
}

/** A failure behind checks that have something to say in every answer. */
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

/** Whether the log should know: whatever fails in us, with what made it fail where a caller only reads "try again". */
function isOurs(error: CatalogueError): boolean {
  return error.code === 'internal' || (error.status >= 500 && error.cause !== undefined);
}

/** @param allowed called for a 405 only */
export function renderError(error: CatalogueError | SchemaViolation, allowed?: () => string[]): ApiReply {
  if (error instanceof SchemaViolation) return jsonReply(422, { detail: error.violations });
  const headers: [string, string][] = [];
  if (error.code === 'method_not_allowed' && allowed !== undefined) {
    headers.push(['allow', allowed().join(', ')]);
  }
  // RFC 9110, 15.5.16.
  if (error.code === 'encoded_body') headers.push(['accept-encoding', 'identity']);
  // RFC 6750, 3.
  if (error.code === 'unauthenticated') headers.push(['www-authenticate', 'Bearer']);
  if (error.retryable) headers.push(['retry-after', '1']);
  return jsonReply(error.status, toApiBody(error), headers);
}

/** What a request's path leads to; shared by the requests that have it. */
interface Match {
  readonly route: ApiRoute;
  readonly params: Readonly<Record<string, string>>;
}

/** One level of the table: what may stand between two slashes. */
interface Segment {
  literals: Map<string, Segment>;
  /** `{name}`: any one segment. */
  parameter: Segment | null;
  /** By method, of paths that end here. */
  ends: Map<string, End>;
}

interface End {
  route: ApiRoute;
  /** The path's parameters, and which segments they are. */
  params: readonly (readonly [name: string, at: number])[];
}

/** Paths of which it is known where they lead: a run's steps all have one. */
const KNOWN_PATHS = 256;
/** Longer ones are found anew each time. */
const KNOWN_PATH_CHARACTERS = 256;

/** The table, ready to be asked. */
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
   * A HEAD is answered as its GET (the server leaves the body out), a trailing slash as if it were not there. A path with a literal
   * segment goes before one with a parameter, whatever the method, as in OpenAPI.
   * @throws CatalogueError `not_found`, or `method_not_allowed` for a path that other methods have
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

  /** The methods that a path has, as `Allow` lists them. */
  allowed(path: string): string[] {
    const methods: string[] = [];
    for (const [method, { route }] of findPath(this.#root, splitPath(path), 1)?.ends ?? []) {
      // To all but the operator it is not there, so its methods are not told.
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

/** The path's segments behind an empty first one, without what a trailing slash would add. */
function splitPath(path: string): string[] {
  const steps = path.split('/');
  if (steps.length > 2 && steps.at(-1) === '') steps.pop();
  return steps;
}

/** Where the steps from `at` on lead; literals go before parameters. */
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

/** @throws CatalogueError `not_found` for a segment that is not percent-encoded UTF-8: nothing can be called that. */
function decodeSegment(segment: string): string {
  // The server shows bytes as characters.
  const text = /[^\0-\x7f]/.test(segment) ? Buffer.from(segment, 'latin1').toString() : segment;
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    throw new CatalogueError('not_found');
  }
}
