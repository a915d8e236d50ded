/**
 * What stands behind a dashboard route (`auth: 'user'`): a function from the checked request of a signed-in user to an
 * answer. Types; server threads.
 */
import type { Identity, User } from '../domain/account.ts';
import type { Endpoint } from './endpoint.ts';
import type { Call, HandlerReply } from './handler.ts';

/** A request of a user, who is known and has a record. */
interface UserCall<E extends Endpoint> extends Omit<Call<E>, 'tenant'> {
  user: User;
  /** What the token of this request says. */
  identity: Identity;
  /** false only when the identity provider says so: then the address proves nothing. */
  email_verified: boolean;
  /** Wall-clock time of the request, milliseconds since the epoch. */
  now_ms: number;
}

/** @throws CatalogueError for what the caller did wrong or may try again */
type UserHandler<E extends Endpoint> = (call: UserCall<E>) => HandlerReply | Promise<HandlerReply>;

/** A handler for each endpoint of a table. */
export type UserHandlersOf<Table extends Readonly<Record<string, Endpoint>>> = {
  readonly [Name in keyof Table]: UserHandler<Table[Name]>;
};

/** An endpoint with what stands behind it. */
export interface BoundUserEndpoint {
  endpoint: Endpoint;
  handler: UserHandler<Endpoint>;
}

/** Puts a table and its handlers together, one entry an endpoint. */
export function bindUser<const Table extends Readonly<Record<string, Endpoint>>>(
  table: Table,
  handlers: UserHandlersOf<Table>,
): BoundUserEndpoint[] {
  return Object.keys(table).map((name) => ({
    endpoint: table[name]!,
    // Each handler gets the calls of its endpoint alone.
    handler: handlers[name] as unknown as UserHandler<Endpoint>,
  }));
}
