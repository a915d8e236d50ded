/**
 * The address as state: `#/runs/demo?org=org_1&turn=7`. It holds the page, what is chosen on it, the organization
 * and the filters, so that it can be shared, kept, and gone back to. Browser.
 */
import { computed, signal } from '@preact/signals';
import { type Address, renewAddress } from './former-addresses.ts';

/** @param hash with its `#`. An address of an earlier release (`#billing`) is understood */
function readAddress(hash: string): Address {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [page = '', ...rest] = path.split('/');
  const selection = rest.join('/');
  return {
    page: decode(page),
    selection: selection === '' ? null : decode(selection),
    query: Object.fromEntries(new URLSearchParams(search)),
  };
}

function writeAddress({ page, selection, query }: Address): string {
  const path = selection === null ? page : `${page}/${encodeURIComponent(selection)}`;
  const given = Object.entries(query).filter(([, value]) => value !== '');
  return `#/${path}${given.length === 0 ? '' : `?${new URLSearchParams(given)}`}`;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Where the reader is. One of an earlier release becomes what it is called today, without a place in the history. */
function readLocation(): Address {
  const given = readAddress(location.hash);
  const renewed = renewAddress(given);
  if (renewed !== given) history.replaceState(null, '', writeAddress(renewed));
  return renewed;
}

export const address = signal(readLocation());
addEventListener('hashchange', () => {
  address.value = readLocation();
});

/** A filter's value; '' when it is not set. */
export function filterOf(name: string): string {
  return address.value.query[name] ?? '';
}

/** Where a page is: the organization stays, filters do not. */
export function hrefOf(
  page: string,
  selection: string | null = null,
  filters: Record<string, string> = {},
): string {
  const { org } = address.value.query;
  return writeAddress({ page, selection, query: { ...filters, ...(org === undefined ? {} : { org }) } });
}

/** Where the reader is now, with other filters. Does not follow the address. */
export function hrefHere(filters: Record<string, string>): string {
  const { page, selection, query } = address.peek();
  return writeAddress({ page, selection, query: { ...query, ...filters } });
}

/** Goes to a page. */
export function goTo(page: string, selection: string | null = null): void {
  location.hash = hrefOf(page, selection);
}

/** Sets filters where the reader is; '' takes one away. Typing into a filter makes no history. */
export function setFilters(filters: Record<string, string>): void {
  const { page, selection, query } = address.peek();
  const next = { page, selection, query: { ...query, ...filters } };
  history.replaceState(null, '', writeAddress(next));
  address.value = readAddress(location.hash);
}

/** Another organization, on the same page; what was chosen and filtered belongs to the former one. */
export function chooseOrganization(org: string): void {
  const { page } = address.peek();
  location.hash = writeAddress({ page, selection: null, query: { org } });
}

/** The organization that the address names; null: none. */
export const namedOrganization = computed(() => address.value.query.org ?? null);
