/** The baseline of the `steps` benchmark: a bare uWebSockets.js server that echoes JSON. Runs in its own process. */
import uWS, { type HttpResponse } from 'uWebSockets.js';

const app = uWS.App();

function answer(response: HttpResponse, body: Buffer): void {
  response.writeHeader('content-type', 'application/json').end(JSON.stringify(JSON.parse(body.toString())));
}

app.post('/*', (response) => {
  let before: Buffer | null = null;
  response.onAborted(() => {});
  response.onData((chunk, isLast) => {
    const bytes = Buffer.from(chunk);
    if (isLast && before === null) return answer(response, bytes);
    before = Buffer.concat(before === null ? [bytes] : [before, bytes]);
    if (isLast) answer(response, before);
  });
});
app.listen('127.0.0.1', 0, (socket) => {
  if (!socket) process.exit(1);
  process.send?.({ port: uWS.us_socket_local_port(socket) });
});
process.on('disconnect', () => process.exit(0));
