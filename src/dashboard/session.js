/** Who is signed in, and calls of the API as them. The token stays in this tab alone. Browser. */

const TOKEN = 'understudy-token';

/** A refusal of the API, with its words. */
export class ApiError extends Error {
  constructor(status, detail) {
    super(
      typeof detail === 'string'
        ? detail
        : detail.map((one) => `${one.loc.slice(1).join('.')}: ${one.msg}`).join('; '),
    );
    this.status = status;
  }
}

/** Takes a token out of the address (`/#token=…`, the link on the terminal), so that it stays in no history. */
export function takeToken() {
  const [, token] = /[#&]token=([^&]+)/.exec(location.hash) ?? [];
  if (token === undefined) return;
  // A token is letters, digits, dots and dashes: whatever is encoded is none.
  sessionStorage.setItem(TOKEN, token);
  history.replaceState(null, '', '/');
}

export const isSignedIn = () => sessionStorage.getItem(TOKEN) !== null;
export const signIn = (token) => sessionStorage.setItem(TOKEN, token.trim());
export const signOut = () => sessionStorage.removeItem(TOKEN);

/** @returns the response of a request with the token */
export function send(method, path, body, signal) {
  const headers = { authorization: `Bearer ${sessionStorage.getItem(TOKEN)}` };
  if (body !== undefined) headers['content-type'] = 'application/json';
  return fetch(path, {
    method,
    headers,
    signal,
    body: body === undefined ? undefined : JSON.stringify(body),
  });
}

/** @returns the answer's JSON. @throws ApiError */
export async function call(method, path, body) {
  const response = await send(method, path, body);
  const answer = await response.json().catch(() => ({ detail: response.statusText }));
  if (!response.ok) throw new ApiError(response.status, answer.detail);
  return answer;
}

/** A path with its query, encoded; what is null or '' is left out. */
export function withQuery(path, query) {
  const given = Object.entries(query).filter(
    ([, value]) => value !== null && value !== undefined && value !== '',
  );
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

/** Server-sent events of a path, read with the token (EventSource sends none), until the signal ends it. */
export async function* readEvents(path, signal) {
  const response = await send('GET', path, undefined, signal);
  if (!response.ok) {
    const { detail } = await response.json().catch(() => ({ detail: response.statusText }));
    throw new ApiError(response.status, detail);
  }
  let rest = '';
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    rest += text;
    const blocks = rest.split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(
        block.split('\n').map((line) => /^(\w+): ?(.*)$/.exec(line)?.slice(1) ?? ['', '']),
      );
      if (fields.data !== undefined)
        yield { event: fields.event ?? 'message', data: JSON.parse(fields.data) };
    }
  }
}
