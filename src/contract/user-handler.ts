/**
 * Handlers of dashboard routes (`auth: 'user'`): functions from the checked request of a signed-in user to an
 * answer. Types; server threads.
 */
import type { Identity, User } from '../domain/account.ts';
import type { Endpoint } from './endpoint.ts';
import type { Call, HandlerReply } from './handler.ts';

/** A request of a user who has a record. */
interface UserCall<E extends Endpoint> extends Omit<Call<E>, 'tenant'> {
  user: User;
  /** The claims in the token of this request. */
  identity: Identity;
  /**
   * false if the identity provider says that the address is not verified. Such an address does not prove who the user
   * is.
   */
  email_verified: boolean;
  /** Wall-clock time of the request, milliseconds since the epoch. */
  now_ms: number;
}

/**
 * Handles a call of a dashboard route.
 * @throws CatalogueError for mistakes of the caller and for temporary failures
 */
type UserHandler<E extends Endpoint> = (call: UserCall<E>) => HandlerReply | Promise<HandlerReply>;

/** A handler for each endpoint of a table. */
export type UserHandlersOf<Table extends Readonly<Record<string, Endpoint>>> = {
  readonly [Name in keyof Table]: UserHandler<Table[Name]>;
};

/** An endpoint with its handler. */
export interface BoundUserEndpoint {
  endpoint: Endpoint;
  handler: UserHandler<Endpoint>;
}

/** Combines a table with its handlers, one entry per endpoint. */
export function bindUser<const Table extends Readonly<Record<string, Endpoint>>>(
  table: Table,
  handlers: UserHandlersOf<Table>,
): BoundUserEndpoint[] {
  return Object.keys(table).map((name) => ({
    endpoint: table[name]!,
    // Each handler gets only calls of its endpoint.
    handler: handlers[name] as unknown as UserHandler<Endpoint>,
  }));
}
