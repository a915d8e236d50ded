/**
 * The page's address holds the state: `#/runs/demo?org=org_1&turn=7`. It contains the page, the selected item, the
 * organization and the filters, so that readers can share it, bookmark it and go back to it. Browser.
 */
import { computed, signal } from '@preact/signals';

interface Address {
  /** '' for the first page. */
  page: string;
  /** The selected item; null: none. */
  selection: string | null;
  /** Filters, and the organization as `org`. */
  query: Readonly<Record<string, string>>;
}

/** Parses the hash of the address, with its `#`. Addresses of earlier releases (`#billing`) are accepted. */
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

/** The present address. */
export const address = signal(readAddress(location.hash));
addEventListener('hashchange', () => {
  address.value = readAddress(location.hash);
});

/** A filter's value; '' when it is not set. */
export function filterOf(name: string): string {
  return address.value.query[name] ?? '';
}

/** The address of a page in the present organization, with these filters alone. */
export function hrefOf(
  page: string,
  selection: string | null = null,
  filters: Record<string, string> = {},
): string {
  const { org } = address.value.query;
  return writeAddress({ page, selection, query: { ...filters, ...(org === undefined ? {} : { org }) } });
}

/**
 * The present address with these filters changed; '' removes a filter. A component that calls this is not drawn again
 * when the address changes.
 */
export function hrefHere(filters: Record<string, string>): string {
  const { page, selection, query } = address.peek();
  return writeAddress({ page, selection, query: { ...query, ...filters } });
}

/** Goes to a page. */
export function goTo(page: string, selection: string | null = null): void {
  location.hash = hrefOf(page, selection);
}

/** Sets filters on the present page; '' removes one. Typing into a filter makes no entry in the history. */
export function setFilters(filters: Record<string, string>): void {
  const { page, selection, query } = address.peek();
  const next = { page, selection, query: { ...query, ...filters } };
  history.replaceState(null, '', writeAddress(next));
  address.value = readAddress(location.hash);
}

/**
 * Changes the organization on the same page. The selected item and the filters are dropped, because they
 * belong to the previous organization.
 */
export function chooseOrganization(org: string): void {
  const { page } = address.peek();
  location.hash = writeAddress({ page, selection: null, query: { org } });
}

/** The organization that the address names; null: none. */
export const namedOrganization = computed(() => address.value.query.org ?? null);
