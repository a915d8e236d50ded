/** Who is signed in, and calls of the API as them. The token stays in this tab alone. Browser. */

const TOKEN = 'understudy-token';
const ORGANIZATION = 'understudy-organization';

/** A refusal of the API, with its words; status 0: there was no answer. */
export class ApiError extends Error {
  constructor(status, detail) {
    super(describe(status, detail));
    this.status = status;
  }
}

function describe(status, detail) {
  if (typeof detail === 'string' && detail !== '') return detail;
  if (Array.isArray(detail))
    return detail.map((one) => `${one.loc.slice(1).join('.')}: ${one.msg}`).join('; ');
  return `The server answered ${status}`;
}

/** Takes a token out of the address (`/#token=…`, the link on the terminal), so that it stays in no history. */
export function takeToken() {
  const [, token] = /[#&]token=([^&]+)/.exec(location.hash) ?? [];
  if (token === undefined) return;
  // A token is letters, digits, dots and dashes: whatever is encoded is none.
  signIn(token);
  history.replaceState(null, '', '/');
}

export const isSignedIn = () => sessionStorage.getItem(TOKEN) !== null;
export function signIn(token) {
  // A pasted token may be broken into lines, and no header takes what is no ASCII.
  sessionStorage.setItem(TOKEN, token.replace(/[^\x21-\x7e]/g, ''));
}
export const signOut = () => sessionStorage.removeItem(TOKEN);

/** The next one to sign in here may be somebody else. */
export const forget = () => sessionStorage.clear();

/** The organization that was looked at last in this tab; null for none. */
export const lastOrganization = () => sessionStorage.getItem(ORGANIZATION);
export const rememberOrganization = (id) => sessionStorage.setItem(ORGANIZATION, id);

/** @returns the response of a request with the token. @throws ApiError with status 0 when nobody answers */
export async function send(method, path, { body, signal, headers: more = {} } = {}) {
  const headers = { authorization: `Bearer ${sessionStorage.getItem(TOKEN)}`, ...more };
  if (body !== undefined) headers['content-type'] = 'application/json';
  const json = body === undefined ? undefined : JSON.stringify(body);
  try {
    return await fetch(path, { method, headers, signal, body: json, cache: 'no-store' });
  } catch (thrown) {
    if (thrown.name === 'AbortError') throw thrown;
    throw new ApiError(0, 'The server does not answer. Is it running?');
  }
}

/** @returns the response, which is no refusal. @throws ApiError */
async function sendWell(method, path, options) {
  const response = await send(method, path, options);
  if (response.ok) return response;
  const { detail } = await response.json().catch(() => ({}));
  throw new ApiError(response.status, detail);
}

/** @returns the answer's JSON. @throws ApiError */
export async function call(method, path, body) {
  return (await sendWell(method, path, { body })).json();
}

/** @returns a page of a list, and how many there are in all. @throws ApiError */
export async function callList(path) {
  const response = await sendWell('GET', path);
  return { rows: await response.json(), total: Number(response.headers.get('x-total-count')) };
}

/** A path with its query, encoded; what is null or '' is left out. */
export function withQuery(path, query) {
  const given = Object.entries(query).filter(
    ([, value]) => value !== null && value !== undefined && value !== '',
  );
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

/** Server-sent events of a path, read with the token (EventSource sends none), until the stream or the signal ends. */
export async function* readEvents(path, { signal, last_id }) {
  const response = await sendWell('GET', path, { signal, headers: { 'last-event-id': last_id } });
  let rest = '';
  for await (const text of readTexts(response.body)) {
    rest += text;
    const blocks = rest.split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(
        block.split('\n').map((line) => /^(\w+): ?(.*)$/.exec(line)?.slice(1) ?? ['', '']),
      );
      const { id, event, data } = fields;
      yield { id, event, data: data === undefined ? null : JSON.parse(data) };
    }
  }
}

/** Not every browser can iterate over a stream. */
async function* readTexts(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}
