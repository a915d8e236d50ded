/**
 * The effect of a link with `#token=` on a session: the dashboard's own module against a real service. The test
 * provides the parts of a browser that it uses (an address, a cookie, storage).
 */
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { runHere } from '../cli/here.ts';
import { ApiChild } from '../fixtures/api-child.ts';
import { importCopy } from '../fixtures/module-copy.ts';

const service = new ApiChild({ AUTH_DB_URL: 'embedded:' });
const tokens: Record<string, string> = {};
let cookie = '';
/** The requests of the page, by method and path. */
let asked: string[] = [];
/** Paths whose requests get no answer. */
let isDown: (route: string) => boolean = () => false;
/** Delays the answer to a request. */
let hold: (route: string) => Promise<void> | undefined = () => undefined;

const fetchAsPage = async (path: string, init: RequestInit = {}): Promise<Response> => {
  const route = `${init.method ?? 'GET'} ${path}`;
  if (isDown(route)) throw new TypeError('fetch failed');
  asked.push(route);
  await hold(route);
  const headers = new Headers(init.headers);
  headers.set('sec-fetch-site', 'same-origin');
  if (cookie !== '') headers.set('cookie', cookie);
  const answer = await realFetch(service.url + path, {
    method: init.method ?? 'GET',
    headers,
    body: init.body ?? null,
  });
  const set = answer.headers.get('set-cookie');
  if (set !== null) cookie = set.split(';', 1)[0]!;
  return answer;
};
const realFetch = globalThis.fetch;

class Storage {
  readonly #kept = new Map<string, string>();
  getItem = (key: string) => this.#kept.get(key) ?? null;
  setItem = (key: string, value: string) => void this.#kept.set(key, value);
  removeItem = (key: string) => void this.#kept.delete(key);
}

interface Offered {
  current: string;
  offered: string;
  decide(takesIt: boolean): void;
}

/** The parts of the module that the test uses. The module itself has the types of a browser. */
interface Session {
  openSession(): Promise<void>;
  followRole(): Promise<void>;
  bootstrap: { value: { profile: { email: string } } | null };
  signInReason: { value: string };
  offeredSession: {
    value: Offered | null;
    subscribe(listener: (offered: Offered | null) => void): () => void;
  };
}
const MODULE = new URL('../../src/dashboard/core/session.ts', import.meta.url);
let page: Session;
const place = { hash: '' };

beforeAll(async () => {
  await service.start();
  for (const name of ['ann', 'eve']) {
    const { stdout } = await runHere(['token', '--email', `${name}@example.com`], { DATA_DIR: service.dir });
    tokens[name] = stdout.trim();
  }
});
afterAll(async () => {
  vi.unstubAllGlobals();
  await service[Symbol.asyncDispose]();
});
beforeEach(async () => {
  asked = [];
  isDown = () => false;
  hold = () => undefined;
  cookie = '';
  const events = new EventTarget();
  place.hash = '';
  vi.stubGlobal('location', place);
  vi.stubGlobal('history', {
    replaceState: (_state: unknown, _title: string, url: string) => {
      place.hash = /#.*/.exec(url)?.[0] ?? '';
    },
  });
  vi.stubGlobal('document', events);
  vi.stubGlobal('localStorage', new Storage());
  vi.stubGlobal('sessionStorage', new Storage());
  vi.stubGlobal('addEventListener', events.addEventListener.bind(events));
  vi.stubGlobal('dispatchEvent', events.dispatchEvent.bind(events));
  vi.stubGlobal('HashChangeEvent', Event);
  vi.stubGlobal('fetch', fetchAsPage);
  // A new import, because a browser loads the modules again for each page.
  page = await importCopy(MODULE);
});

/** Opens a link. Resolves when the link is handled, or when the page asks the user. */
async function openLink(token: string, next = ''): Promise<{ done: Promise<void> }> {
  place.hash = `#token=${token}${next}`;
  const done = page.openSession();
  const isAsked = new Promise<void>((resolve) => {
    const stop = page.offeredSession.subscribe((offered) => {
      if (offered !== null) resolve();
    });
    void done.catch(() => {}).finally(() => stop());
  });
  await Promise.race([done.catch(() => {}), isAsked]);
  return { done };
}

const emailNow = () => page.bootstrap.value?.profile.email;
const sessionsStarted = () => asked.filter((route) => route === 'POST /auth/session').length;

it('a link signs in a user who is signed out, and disappears from the address', async () => {
  const { done } = await openLink(tokens.ann!, '&next=runs');
  await done;
  expect(emailNow()).toBe('ann@example.com');
  expect(place.hash).toBe('#/runs');
});

it('a link of another user changes nothing if the user declines it', async () => {
  await (await openLink(tokens.ann!)).done;
  const before = cookie;
  const { done } = await openLink(tokens.eve!);
  expect(page.offeredSession.value).toMatchObject({ current: 'ann@example.com', offered: 'eve@example.com' });
  expect(place.hash).not.toContain(tokens.eve);
  expect(sessionsStarted()).toBe(1);
  page.offeredSession.value!.decide(false);
  await done;
  expect(page.offeredSession.value).toBe(null);
  expect([emailNow(), cookie, sessionsStarted()]).toEqual(['ann@example.com', before, 1]);
  // The declined link is not used by a reload either.
  await page.openSession();
  expect(emailNow()).toBe('ann@example.com');
});

it('a link of another user replaces the session if the user agrees', async () => {
  await (await openLink(tokens.ann!)).done;
  const { done } = await openLink(tokens.eve!);
  page.offeredSession.value!.decide(true);
  await done;
  expect(emailNow()).toBe('eve@example.com');
});

it('a link of the same user is used without a question', async () => {
  await (await openLink(tokens.ann!)).done;
  await (await openLink(tokens.ann!)).done;
  expect([emailNow(), sessionsStarted()]).toEqual(['ann@example.com', 2]);
});

it('an invalid link does not affect a session, and is reported to a user who is signed out', async () => {
  await (await openLink(`${tokens.ann}x`)).done;
  expect(page.signInReason.value).toContain('This link is no longer valid');
  await (await openLink(tokens.ann!)).done;
  await (await openLink('a.b.c')).done;
  expect([emailNow(), page.offeredSession.value]).toEqual(['ann@example.com', null]);
});

it('a link is not lost while the server does not answer', async () => {
  isDown = (route) => route === 'GET /auth/me';
  await expect((await openLink(tokens.ann!)).done).rejects.toMatchObject({ status: 0 });
  expect(place.hash).toBe('');
  isDown = () => false;
  await page.openSession();
  expect(emailNow()).toBe('ann@example.com');
});

it('a link that is opened while the page asks about another link replaces that link', async () => {
  const { stdout } = await runHere(['token', '--email', 'bob@example.com'], { DATA_DIR: service.dir });
  await (await openLink(tokens.ann!)).done;
  const first = await openLink(tokens.eve!);
  const { done } = await openLink(stdout.trim());
  await first.done;
  await vi.waitFor(() => expect(page.offeredSession.value?.offered).toBe('bob@example.com'));
  page.offeredSession.value!.decide(true);
  await done;
  expect(emailNow()).toBe('bob@example.com');
});

it('the account of a signed-in user is read with simultaneous requests, each sent once', async () => {
  await (await openLink(tokens.ann!)).done;
  asked = [];
  const isMemberAsked = Promise.withResolvers<void>();
  hold = (route) => {
    if (route.includes('/members')) isMemberAsked.resolve();
    return route.includes('config.json') || route.includes('/capture/') ? isMemberAsked.promise : undefined;
  };
  await page.openSession();
  await page.followRole();
  expect(asked.filter((route) => route.includes('/members'))).toHaveLength(1);
  expect(asked.filter((route) => route === 'GET /auth/bootstrap')).toHaveLength(1);
});
