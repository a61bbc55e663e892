// Tables that can be sorted by column.
'use strict';

// columns: {title, text(row) -> text or element, value(row) -> sort key,
// number: true to align right}. A column without `value` cannot be sorted.
dpc.table = (caption, columns, rows, rowClass) => {
  const body = dpc.el('tbody');
  const fill = (sorted) => {
    body.replaceChildren(...sorted.map((row) =>
      dpc.el('tr', {class: rowClass ? rowClass(row) : undefined},
        columns.map((column) =>
          dpc.el('td', {class: column.class || (column.number ? 'number' : undefined)}, column.text(row))))));
  };
  const heads = columns.map((column) => {
    const head = dpc.el('th', {scope: 'col', class: column.number ? 'number' : undefined},
      column.value ? dpc.el('button', {type: 'button'}, column.title) : column.title);
    if (column.value)
      head.firstChild.addEventListener('click', () => {
        const rising = head.getAttribute('aria-sort') !== 'ascending';
        for (const other of heads) other.removeAttribute('aria-sort');
        head.setAttribute('aria-sort', rising ? 'ascending' : 'descending');
        fill(dpc.sorted(rows, column.value, rising));
      });
    return head;
  });
  fill(rows);
  return dpc.el('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption},
    dpc.el('table', {class: columns.length < 5 ? 'small' : undefined}, dpc.el('caption', {}, caption), dpc.el('thead', {}, dpc.el('tr', {}, heads)), body));
};

// Unknown values are last in both directions.
dpc.sorted = (rows, valueOf, rising) => {
  const isKnown = (value) => value !== undefined && value !== null && !Number.isNaN(value);
  return rows.slice().sort((a, b) => {
    const x = valueOf(a), y = valueOf(b);
    if (!isKnown(x) || !isKnown(y)) return isKnown(y) - isKnown(x);
    const order = typeof x === 'string' ? x.localeCompare(y) : x - y;
    return rising ? order : -order;
  });
};

// Hides long content until its title is clicked.
dpc.folded = (title, count, content) => (count <= 8 ? content
  : dpc.el('details', {}, dpc.el('summary', {}, Number.isFinite(count) ? `${title} (${count})` : title), content));

// Opens folded content for printing, except very long lists, and closes it afterwards.
dpc.unfoldToPrint = () => {
  let closed = [];
  addEventListener('beforeprint', () => {
    closed = [...document.querySelectorAll('details:not([open], .long)')];
    for (const fold of closed) fold.open = true;
  });
  addEventListener('afterprint', () => {
    for (const fold of closed.splice(0)) fold.open = false;
  });
};

dpc.strategyCell = (strategy) => dpc.el('code', {}, dpc.strategyText(strategy));
