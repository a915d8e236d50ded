/**
 * A tunnel to a configured host: the proxy acts as the client's TLS server, and passes the decrypted bytes to the
 * gateway over loopback, unchanged. The gateway opens its own TLS connection to the provider. Proxy thread.
 */
import { connect, type Socket } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';

/** How long the TLS handshake after a CONNECT may take. */
export const PROXY_HANDSHAKE_MS = 10_000;
/** Time for a client to read the rest of an answer after the gateway's connection has ended. */
const PROXY_LINGER_MS = 30_000;

/** The protocols between client and proxy after the handshake. */
type TunnelProtocol = 'http/1.1' | 'h2';

const LOOPBACK = '127.0.0.1';

/**
 * Acts as the client's TLS server.
 * @param host the host in the client's CONNECT. The TLS handshake must name the same host, because the certificate is
 *   only for it
 * @returns the socket after the handshake, and its protocol
 * @throws Error when the handshake fails or takes too long; the socket is then destroyed
 */
export async function agreeWithClient(
  client: Socket,
  host: string,
  context: SecureContext,
): Promise<{ socket: TLSSocket; protocol: TunnelProtocol }> {
  // A client that ends one direction is disconnected, as at the gateway, because HTTP/2 would otherwise wait for this
  // client to read.
  client.allowHalfOpen = false;
  const socket = new TLSSocket(client, {
    isServer: true,
    secureContext: context,
    SNICallback: (name, callback) => {
      if (isSame(name, host)) callback(null, context);
      else callback(new Error('another host than that of CONNECT'));
    },
    ALPNCallback: ({ protocols }) => chooseProtocol(protocols),
  } as ConstructorParameters<typeof TLSSocket>[1]);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(() => reject(new Error('the handshake took too long')), PROXY_HANDSHAKE_MS);
  socket.once('secure', resolve);
  socket.on('error', reject);
  const onClosed = () => reject(new Error('the client went away'));
  socket.once('close', onClosed);
  client.once('close', onClosed);
  try {
    await promise;
    // Checked here too, because a client may name no host, and because the callback above is not called for a resumed
    // session.
    if (!isSame((socket as unknown as { servername: unknown }).servername, host))
      throw new Error('no server name, or another one than the host of CONNECT');
  } catch (thrown) {
    socket.destroy();
    client.destroy();
    throw thrown;
  } finally {
    clearTimeout(timer);
    socket.off('close', onClosed);
    client.off('close', onClosed);
  }
  // Node's TLS server sets this property, and HTTP/2 waits for it.
  (socket as unknown as { secureConnecting: boolean }).secureConnecting = false;
  return { socket, protocol: socket.alpnProtocol === 'h2' ? 'h2' : 'http/1.1' };
}

/**
 * Chooses HTTP/2 only for a client that does not offer HTTP/1.1, which passes byte for byte. undefined: the client
 * offers neither.
 */
function chooseProtocol(offered: readonly string[]): string | undefined {
  return ['http/1.1', 'h2'].find((protocol) => offered.includes(protocol));
}

function isSame(name: unknown, host: string): boolean {
  return typeof name === 'string' && name.toLowerCase().replace(/\.$/, '') === host;
}

/**
 * Passes bytes between a client and the gateway in both directions, with backpressure.
 * @param port the port of the gateway's listener for this host
 * @param onOver called once, when both sides are closed
 */
export function passToGateway(client: TLSSocket, port: number, onOver: () => void): void {
  const gateway = connect({ host: LOOPBACK, port, noDelay: true });
  let left = 2;
  const onClosed = () => {
    left--;
    if (left === 0) onOver();
  };
  client.on('error', () => gateway.destroy());
  gateway.on('error', () => client.destroy());
  client.once('close', () => {
    gateway.destroy();
    onClosed();
  });
  gateway.once('close', () => {
    // A client that still reads gets the rest of the answer.
    if (!client.destroyed) {
      client.setTimeout(PROXY_LINGER_MS, () => client.destroy());
      client.destroySoon();
    }
    onClosed();
  });
  client.pipe(gateway).pipe(client);
}
