/** The page for an address that names no page. Browser. */
import { address, hrefOf } from '../core/address.ts';
import { PageHead } from '../ui/basics.tsx';
import { Empty } from '../ui/states.tsx';

export function NowherePage() {
  return (
    <>
      <PageHead title="Not found" />
      <Empty title="No page has this address.">
        There is no page <code>{address.value.page}</code>. <a href={hrefOf('')}>Home</a> and the menu lead to
        all pages.
      </Empty>
    </>
  );
}
