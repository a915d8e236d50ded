/**
 * A simple proxy: node:http on both sides, a keep-alive agent, pipes. It shows what forwarding costs in plain Node.
 * Own process; its argument is the upstream's port. It sends `{port}`.
 */
import { Agent, createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream';

const agent = new Agent({ keepAlive: true, noDelay: true, maxSockets: Number.POSITIVE_INFINITY });
const port = Number(process.argv[2]);

const server = createServer((req, res) => {
  const { connection: _, ...headers } = req.headers;
  const forward = request({
    host: '127.0.0.1',
    port,
    agent,
    method: req.method,
    path: req.url,
    headers: { ...headers, host: `127.0.0.1:${port}` },
  });
  forward.on('response', (answer) => {
    res.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
    pipeline(answer, res, () => undefined);
  });
  forward.on('error', () => (res.headersSent ? res.destroy() : res.writeHead(502).end()));
  res.on('close', () => forward.destroy());
  pipeline(req, forward, () => undefined);
});
server.requestTimeout = 0;
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
process.on('disconnect', () => process.exit(0));
