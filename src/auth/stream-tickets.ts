/**
 * Tickets for the live stream: a browser's `EventSource` cannot send `Authorization`, so the query may contain a ticket
 * that is valid for a minute. A ticket is the credential and its tenant, encrypted with a key that exists only in this
 * process's memory: a ticket in a proxy's log is useless after a minute, and after a restart. Boxes that share a
 * database derive one key from their secrets instead, because a ticket of one box must open the stream of another box.
 * So their tickets stay valid over a restart. A redeemed ticket passes every check of its credential. Server threads.
 */
import { hkdfSync, randomFillSync } from 'node:crypto';
import { EncryptJWT, jwtDecrypt } from 'jose';
import type { Tenant } from '../domain/tenant.ts';
import { CatalogueError } from '../errors.ts';
import { STREAM_TICKET } from '../limits.ts';
import { type Clock, systemClock } from '../std/clock.ts';

const KEY_BYTES = 32;
const HEADER = { alg: 'dir', enc: 'A256GCM' } as const;

/** The credential and the tenant of a ticket. */
interface TicketClaims {
  /** The credential in the form of the header. */
  authorization: string;
  org_id: string;
  project_id: string | null;
}

export class StreamTickets {
  readonly #key: Uint8Array;
  readonly #clock: Pick<Clock, 'wallMs'>;

  /** @param key the result of {@link allocate}, the same for all server threads */
  constructor(key: SharedArrayBuffer, clock: Pick<Clock, 'wallMs'> = systemClock) {
    // A copy, because the library does not accept shared memory.
    this.#key = new Uint8Array(key).slice();
    this.#clock = clock;
  }

  /** Makes a new random key. */
  static allocate(): SharedArrayBuffer {
    const key = new SharedArrayBuffer(KEY_BYTES);
    new Uint8Array(key).set(randomFillSync(new Uint8Array(KEY_BYTES)));
    return key;
  }

  /**
   * Replaces the key by a key that is the same on all boxes with these secrets.
   * @param secrets at least one secret that only the boxes know
   */
  static derive(key: SharedArrayBuffer, secrets: readonly Uint8Array[]): void {
    // The length of each secret is included, so that different secrets never make the same bytes.
    const parts = secrets.flatMap((secret) => [Buffer.from(`${secret.length}:`), secret]);
    const derived = hkdfSync('sha256', Buffer.concat(parts), '', 'understudy 1 stream tickets', KEY_BYTES);
    new Uint8Array(key).set(new Uint8Array(derived));
  }

  /**
   * Makes a ticket.
   * @param authorization the header of the request for a ticket
   * @param project_id the only project whose events the ticket shows; null: as the credential allows
   * @returns the ticket: letters, digits, `-`, `_` and `.`
   * @throws CatalogueError `body_too_large` for a credential that is too long for a query
   */
  async issue(
    authorization: string,
    { org_id }: Pick<Tenant, 'org_id'>,
    project_id: string | null,
  ): Promise<string> {
    const now = new Date(this.#clock.wallMs());
    const ticket = await new EncryptJWT({ authorization, org_id, project_id })
      .setProtectedHeader(HEADER)
      .setExpirationTime(new Date(now.getTime() + STREAM_TICKET.seconds * 1_000))
      .encrypt(this.#key);
    if (ticket.length > STREAM_TICKET.characters)
      throw new CatalogueError('body_too_large', 'The credential is too long for a ticket');
    return ticket;
  }

  /**
   * The content of a ticket.
   * @throws CatalogueError (rejects) `unauthenticated` for an invalid or expired ticket
   */
  async open(ticket: string): Promise<TicketClaims> {
    try {
      if (ticket.length > STREAM_TICKET.characters) throw new Error('longer than any ticket');
      const { payload } = await jwtDecrypt(ticket, this.#key, {
        currentDate: new Date(this.#clock.wallMs()),
        keyManagementAlgorithms: [HEADER.alg],
        contentEncryptionAlgorithms: [HEADER.enc],
        requiredClaims: ['exp', 'authorization', 'org_id'],
      });
      // The ticket was decrypted and authenticated with this key, so `issue` made it.
      return payload as unknown as TicketClaims;
    } catch (cause) {
      throw new CatalogueError('unauthenticated', 'The ticket is not valid, or it has expired', { cause });
    }
  }
}
