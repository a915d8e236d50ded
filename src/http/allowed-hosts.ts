/**
 * The host names under which this service answers requests without a credential. A page of another site can make its
 * own host name resolve to this machine (DNS rebinding); the browser then lets the page read the answers. The browser
 * sends that name as `Host`, by which this file recognizes such requests. Pure; server threads.
 */
import { isIP } from 'node:net';

/**
 * Reserved suffixes (RFC 6761, 6762 and 8375, and ICANN): names with them cannot be registered, so
 * only hosts of this network have such names. Names with one label, such as those of containers,
 * are allowed too.
 */
const PRIVATE_SUFFIXES = ['.localhost', '.local', '.internal', '.home.arpa', '.test'];
/** Number of names whose result is cached. Clients usually address a service by a few names. */
const REMEMBERED = 64;
const REMEMBERED_CHARACTERS = 300;

/** The error text for a refused request. */
export const FOREIGN_HOST =
  'This service does not answer under that host name: ALLOWED_HOSTS (or PUBLIC_URL) must contain the name';

export class AllowedHosts {
  readonly #names: ReadonlySet<string>;
  readonly #isAny: boolean;
  readonly #known = new Map<string, boolean>();

  /** @param names further names, lower case, without a port; `*` stands for any name */
  constructor(names: readonly string[]) {
    this.#names = new Set(names.map(trimDot));
    this.#isAny = this.#names.has('*');
  }

  /**
   * Whether a request with this host may be answered without a credential. An IP address is allowed, because no DNS
   * record can redirect it. A request without a host is allowed, too, because every browser sends a host.
   * @param host the header's value, possibly with a port
   */
  allows(host: string | undefined): boolean {
    if (this.#isAny || host === undefined || host === '') return true;
    const known = this.#known.get(host);
    if (known !== undefined) return known;
    const isAllowed = this.#judge(host);
    if (host.length <= REMEMBERED_CHARACTERS) {
      if (this.#known.size >= REMEMBERED) this.#known.clear();
      this.#known.set(host, isAllowed);
    }
    return isAllowed;
  }

  #judge(host: string): boolean {
    const bracketed = /^\[([^\]]*)\](?::\d*)?$/.exec(host);
    if (bracketed !== null) return isIP(bracketed[1]!.split('%', 1)[0]!) === 6;
    const name = trimDot(host.replace(/:\d*$/, '').toLowerCase());
    if (isIP(name) !== 0 || this.#names.has(name)) return true;
    // Text that is not a host name cannot be one of the allowed names.
    if (!/^[a-z\d_]([a-z\d._-]*[a-z\d_])?$/.test(name)) return false;
    return !name.includes('.') || PRIVATE_SUFFIXES.some((suffix) => name.endsWith(suffix));
  }
}

function trimDot(name: string): string {
  return name.endsWith('.') ? name.slice(0, -1) : name;
}
