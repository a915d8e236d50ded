/**
 * An agent that makes a request in every possible form, one after the other, and prints the result of each as a line of
 * JSON. It does not know about labels: the test runs it with the shim and without. JavaScript, for any Node from 20 on.
 * Own process.
 */

import { once } from 'node:events';
import http, { ClientRequest, get as namedGet, request as namedRequest } from 'node:http';
import https, { request as namedHttpsRequest } from 'node:https';
import { createRequire } from 'node:module';
import { connect } from 'node:net';
import { Readable } from 'node:stream';

const { PORT, TLS_PORT, CLOSED_PORT } = process.env;
const port = Number(PORT);
const base = `http://127.0.0.1:${port}`;
const url = `${base}/v1/messages`;
const tlsUrl = `https://localhost:${TLS_PORT}/v1/messages`;
const closed = `http://127.0.0.1:${CLOSED_PORT}/v1/messages`;
const required = createRequire(import.meta.url)('http');
const { request: requiredEarly } = required;

const post = (more = {}) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', 'X-Mixed-Case': 'ä' },
  body: '{"a":1}',
  ...more,
});
const { body, ...bare } = post();

async function read(response) {
  return {
    status: response.status,
    text: await response.text(),
    url: response.url,
    redirected: response.redirected,
  };
}

/** Ends a node:http request with the given parts, and reads its answer. */
function take(request, ...parts) {
  const answered = new Promise((resolve, reject) => {
    request.on('error', reject);
    request.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (part) => {
        text += part;
      });
      response.on('error', reject);
      response.on('end', () =>
        resolve({ status: response.statusCode, text, listeners: request.eventNames().length > 0 }),
      );
    });
  });
  for (const part of parts) request.write(part);
  request.end();
  return answered;
}

/** Resolves every name to this machine, so that any host name can be used. */
const lookup = (_host, options, done) =>
  options.all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4);

const forms = {
  'fetch, text': async () => read(await fetch(url, post())),
  'fetch, URL and query': async () => read(await fetch(new URL(`${url}?beta=true`), post())),
  'fetch, Request': async () => {
    const request = new Request(url, post());
    const was = [...request.headers];
    const answer = await read(await fetch(request));
    return { ...answer, was, is: [...request.headers], used: request.bodyUsed };
  },
  'fetch, Request and init': async () => {
    const request = new Request(url, post());
    return [await read(await fetch(request, { headers: { b: '2' } })), request.bodyUsed];
  },
  "fetch, a caller's objects": async () => {
    const headers = new Headers({ b: '2' });
    const init = Object.freeze({ ...post(), headers });
    const answer = await read(await fetch(url, init));
    return [answer, [...headers], Object.keys(init)];
  },
  'fetch, headers as pairs': async () =>
    read(
      await fetch(
        url,
        post({
          headers: [
            ['a', '1'],
            ['a', '2'],
          ],
        }),
      ),
    ),
  'fetch, an own label': async () => read(await fetch(url, post({ headers: { 'X-Svc-Run': 'mine' } }))),
  'fetch, streamed body': async () => {
    const stream = new ReadableStream({
      start(controller) {
        for (const word of ['one', 'two']) controller.enqueue(new TextEncoder().encode(word));
        controller.close();
      },
    });
    return [await read(await fetch(url, post({ body: stream, duplex: 'half' }))), stream.locked];
  },
  'fetch, streamed answer': async () => {
    const response = await fetch(`${url}?answer=stream`, post());
    let text = '';
    for await (const part of response.body) text += Buffer.from(part);
    return [response.status, text];
  },
  'fetch, error status': async () => read(await fetch(`${url}?answer=error`, post())),
  'fetch, redirect': async () => read(await fetch(`${url}?answer=redirect&to=/v1/responses`, post())),
  'fetch, redirect to no model call': async () =>
    read(await fetch(`${url}?answer=redirect&to=/elsewhere`, post())),
  'fetch, redirect from no model call': async () =>
    read(await fetch(`${base}/here?answer=redirect&to=/v1/messages`, post())),
  'fetch, redirect refused': async () =>
    read(await fetch(`${url}?answer=redirect&to=/v1/messages`, post({ redirect: 'error' }))),
  'fetch, GET': async () => read(await fetch(url)),
  'fetch, no model call': async () => read(await fetch(`${base}/v1/models`)),
  'fetch, aborted before': async () =>
    read(await fetch(url, post({ signal: AbortSignal.abort(new Error('early')) }))),
  'fetch, aborted within': async () => {
    const leave = new AbortController();
    const response = await fetch(`${url}?answer=head-only`, post({ signal: leave.signal }));
    leave.abort(new Error('enough'));
    return read(response);
  },
  'fetch, refused': async () => read(await fetch(closed, post())),
  'fetch, reset': async () => read(await fetch(`${url}?answer=reset`, post())),
  'fetch, nothing': async () => fetch(),
  'fetch, bad address': async () => fetch('http://'),
  'fetch, bad header': async () => fetch(url, { headers: { a: 'b\nc' } }),
  'http, address': () => take(http.request(url, bare), 'hi'),
  'http, URL': () => take(http.request(new URL(url), bare), 'hi', 'ho'),
  'http, options': () => take(http.request({ host: '127.0.0.1', port, path: '/v1/messages', ...bare }), 'hi'),
  'http, hostname first': () =>
    take(http.request({ hostname: 'localhost', host: 'x.invalid', port, path: '/v1/messages', family: 4 })),
  'http, default path': () => take(http.request({ port, host: '127.0.0.1' })),
  'http, callback': () =>
    new Promise((resolve) => http.request(url, (response) => resolve(response.resume().statusCode)).end()),
  'http, address, options, callback': () =>
    new Promise((resolve) =>
      http.request(url, bare, (response) => resolve(response.resume().statusCode)).end('x'),
    ),
  'http, get': () =>
    new Promise((resolve) => http.get(url, (response) => resolve(response.resume().statusCode))),
  'http, named get': () =>
    new Promise((resolve) =>
      namedGet({ port, path: '/v1/messages', host: '127.0.0.1' }, (response) =>
        resolve(response.resume().statusCode),
      ),
    ),
  'http, named': () => take(namedRequest(url, bare), 'hi'),
  'http, required': () => take(required.request(url, bare), 'hi'),
  'http, taken out before': () => take(requiredEarly(url, bare), 'hi'),
  'http, constructed': () => take(new ClientRequest(url), 'hi'),
  'http, one write': () => take(http.request(url, { ...bare, headers: { 'content-length': 2 } }), 'hi'),
  'http, flat headers': async () => {
    const headers = ['Host', 'me', 'A', '1', 'A', '2', 'Connection', 'close'];
    return [await take(http.request(url, { method: 'POST', headers }), 'x'), headers];
  },
  'http, headers in pairs': () =>
    take(
      http.request(url, {
        method: 'POST',
        headers: [
          ['Host', 'me'],
          ['A', '1'],
          ['Connection', 'close'],
        ],
      }),
    ),
  'http, odd headers': () => take(http.request(url, { headers: ['Host', 'me', 'A'] })),
  'http, an own label': () => take(http.request(url, { headers: { 'X-SVC-SEQ': '7' } })),
  'http, an own label, flat': () =>
    take(http.request(url, { headers: ['Host', 'me', 'X-SVC-RUN', '7', 'Connection', 'close'] })),
  'http, expecting': () =>
    take(
      http.request(url, { method: 'POST', headers: { Expect: '100-continue', 'Content-Length': '2' } }),
      'hi',
    ),
  'http, headers set late': async () => {
    const request = http.request(url, { method: 'POST' });
    request.setHeader('Late', '1');
    await once(request, 'socket');
    return take(request, 'hi');
  },
  'http, flushed head': async () => {
    const request = http.request(url, { method: 'POST' });
    request.flushHeaders();
    return take(request, 'hi');
  },
  'http, set after the head': async () => {
    const request = http.request(url, { method: 'POST' });
    const answered = take(request, 'hi');
    try {
      request.setHeader('Late', '1');
    } catch (error) {
      return [await answered, error.code];
    }
  },
  'http, piped body': async () => {
    const request = http.request(url, { method: 'POST' });
    const answered = new Promise((resolve) =>
      request.on('response', (response) => resolve(response.resume().statusCode)),
    );
    Readable.from(['one', 'two']).pipe(request);
    return answered;
  },
  'http, kept connection': async () => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const answers = await Promise.all(
      [1, 2, 3].map((n) => take(http.request(`${url}?n=${n}`, { agent, method: 'POST' }))),
    );
    agent.destroy();
    return answers;
  },
  'http, no agent': () => take(http.request(url, { agent: false })),
  'http, own connection': () =>
    take(http.request({ path: '/v1/messages', createConnection: () => connect(port, '127.0.0.1') })),
  'http, foreign host': () =>
    take(http.request({ host: 'api.example.com', port, path: '/v1/messages', lookup })),
  'http, listed host': () =>
    take(http.request({ host: 'models.example.org', port, path: '/v1/messages', lookup })),
  'http, asked of a proxy': () =>
    take(http.request({ host: '127.0.0.1', port, path: 'http://api.example.com/v1/messages' })),
  'http, error status': () => take(http.request(`${url}?answer=error`)),
  'http, refused': () => take(http.request(closed)),
  'http, reset': () => take(http.request(`${url}?answer=reset`)),
  'http, destroyed before': () => {
    const request = http.request(url);
    const answered = take(request);
    request.destroy(new Error('early'));
    return answered;
  },
  'http, aborted by signal': () => take(http.request(url, { signal: AbortSignal.abort() })),
  'http, bad header': () => take(http.request(url, { headers: { a: 'b\nc' } })),
  'http, bad path': () => take(http.request({ path: '/v1/ messages' })),
  'https, address': () => take(https.request(tlsUrl, { ...bare, rejectUnauthorized: false }), 'hi'),
  'https, named': () => take(namedHttpsRequest(tlsUrl, { rejectUnauthorized: false })),
  'https, get': () =>
    new Promise((resolve) =>
      https.get(tlsUrl, { rejectUnauthorized: false }, (response) => resolve(response.resume().statusCode)),
    ),
  'https, not trusted': () => take(https.request(tlsUrl)),
};

const versions = ['undici6', 'undici7', ...(process.versions.node.startsWith('20.') ? [] : ['undici'])];
for (const name of versions) {
  const undici = (await import(name)).default;
  const text = async ({ statusCode, body: answer }) => [statusCode, await answer.text()];
  const using = async (dispatcher, act) => {
    try {
      return await act(dispatcher);
    } finally {
      await dispatcher.destroy();
    }
  };
  Object.assign(forms, {
    [`${name}, request`]: async () => text(await undici.request(url, post())),
    [`${name}, request, headers as pairs`]: async () =>
      text(await undici.request(url, { ...post(), headers: ['a', '1', 'a', '2'] })),
    [`${name}, request, an own label`]: async () =>
      text(await undici.request(url, { ...post(), headers: ['X-SVC-RUN', 'mine'] })),
    [`${name}, fetch`]: async () => read(await undici.fetch(url, post())),
    [`${name}, stream`]: async () => {
      let status;
      await undici.stream(url, post(), (head) => {
        status = head.statusCode;
        return new (class extends require_stream() {})();
      });
      return status;
    },
    [`${name}, Client`]: () =>
      using(new undici.Client(base), async (client) =>
        text(await client.request({ path: '/v1/messages', ...post() })),
      ),
    [`${name}, Pool`]: () =>
      using(new undici.Pool(base, { connections: 1 }), async (pool) =>
        Promise.all(
          [1, 2, 3].map(async (n) => text(await pool.request({ path: `/v1/messages?n=${n}`, ...post() }))),
        ),
      ),
    [`${name}, no model call`]: async () => text(await undici.request(`${base}/v1/models`)),
    [`${name}, foreign host`]: () =>
      using(new undici.Agent({ connect: { lookup } }), async (dispatcher) =>
        text(await undici.request(`http://api.example.com:${port}/v1/messages`, { ...post(), dispatcher })),
      ),
    [`${name}, redirect to a foreign host`]: () =>
      using(new undici.Agent({ connect: { lookup } }), async (dispatcher) =>
        read(
          await undici.fetch(`${url}?answer=redirect&to=http://api.example.com:${port}/v1/messages`, {
            ...post(),
            dispatcher,
          }),
        ),
      ),
    [`${name}, retry`]: () =>
      using(
        new undici.RetryAgent(new undici.Agent(), { maxRetries: 2, minTimeout: 1, methods: ['POST'] }),
        async (dispatcher) =>
          text(
            await undici.request(`${url}?answer=fail-first`, {
              ...post(),
              body: name,
              dispatcher,
            }),
          ),
      ),
    [`${name}, refused`]: async () => text(await undici.request(closed, post())),
    [`${name}, bad header`]: async () => text(await undici.request(url, { headers: { a: 'b\nc' } })),
  });
  if (name !== 'undici') {
    forms[`fetch, Agent of ${name}`] = () =>
      using(new undici.Agent({ connections: 1 }), async (dispatcher) =>
        read(await fetch(url, post({ dispatcher }))),
      );
  }
}

function describe(error) {
  const { name, message, code, cause } = error;
  return {
    name,
    message,
    code,
    cause: cause === undefined ? undefined : { message: cause.message, code: cause.code },
  };
}

for (const [form, act] of Object.entries(forms)) {
  let outcome;
  try {
    outcome = { value: await act() };
  } catch (error) {
    outcome = { error: describe(error) };
  }
  // Each form begins only after the line of the previous one was written, so that the server's records can be
  // matched.
  await new Promise((resolve) => process.stdout.write(`${JSON.stringify({ form, ...outcome })}\n`, resolve));
}
process.exit(0);
