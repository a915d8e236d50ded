/** Whether the page is as narrow as a phone, so that a row of a list takes two lines. Browser. */
import { useEffect, useState } from 'preact/hooks';

const NARROW = '(max-width: 760px)';

export function useIsNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const query = matchMedia(NARROW);
    const look = () => setNarrow(query.matches);
    query.addEventListener('change', look);
    return () => query.removeEventListener('change', look);
  }, []);
  return isNarrow;
}
