/**
 * The upstream of the WebSocket phase: echoes every message. It uses uWebSockets.js, because a slower upstream would
 * limit the figures of the targets. Own process: it is forked, sends `{port}` to its parent when it listens, and exits
 * when its parent exits.
 */
import uWS from 'uWebSockets.js';

process.on('disconnect', () => process.exit(0));
uWS
  .App()
  .ws('/*', {
    maxPayloadLength: 1 << 20,
    idleTimeout: 0,
    message: (socket, message, isBinary) => void socket.send(message, isBinary),
  })
  .any('/*', (response) => void response.end('ok'))
  .listen('127.0.0.1', 0, (socket) => {
    if (socket === false) process.exit(1);
    process.send?.({ port: uWS.us_socket_local_port(socket) });
  });
