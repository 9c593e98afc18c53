"""The style sheet of all windows: spacing, edges and type; colours and sizes are filled in by `theme`."""

from string import Template

SHEET = Template("""
QMainWindow, QDialog { background: $window; }
QWidget { color: $text; }
QWidget:disabled { color: $muted; }
QLabel[role="title"] { font-size: ${title_size}pt; font-weight: 600; }
QLabel[role="headline"] { font-size: ${headline_size}pt; font-weight: 600; }
QLabel[role="section"] { font-weight: 600; color: $muted; }
QLabel[role="number"] { font-size: ${number_size}pt; font-weight: 600; }
QLabel[role="muted"] { color: $muted; }
QLabel[role="good"] { color: $good; }
QLabel[role="bad"] { color: $bad; }
QLabel[role="banner"] { background: $field; border-left: 3px solid $accent; padding: 10px 12px; }
QPushButton { background: $field; border: 1px solid $line; border-radius: 6px;
    padding: 6px 14px; }
QPushButton:hover, QPushButton:focus { border-color: $accent; }
QPushButton:pressed { background: $line; }
QPushButton:disabled { color: $muted; border-style: dashed; }
QPushButton:checked, QPushButton[role="primary"]:enabled { background: $accent; color: $on_accent;
    border-color: $accent; }
QPushButton[role="primary"]:focus, QPushButton:checked:focus { border: 2px solid $text;
    padding: 5px 13px; }
QPushButton[role="small"] { padding: 3px 10px; }
QPushButton[role="link"] { background: transparent; border: 1px solid transparent; color: $accent;
    padding: 2px 0; text-align: left; }
QPushButton[role="link"]:focus { border-color: $accent; }
QPushButton[role="link"]:disabled { color: transparent; }
QTabWidget::pane { border: none; border-top: 1px solid $line; }
QTabBar::tab { background: transparent; color: $muted; padding: 9px 4px; margin: 0 14px 0 0;
    border: none; border-bottom: 3px solid transparent; }
QTabBar::tab:selected { color: $text; border-bottom-color: $accent; }
QTabBar::tab:focus { color: $accent; }
QTabWidget::tab-bar { left: 24px; }
QScrollBar { background: transparent; border: none; }
QScrollBar:vertical { width: 12px; }
QScrollBar:horizontal { height: 12px; }
QScrollBar::handle { background: $line; border-radius: 3px; margin: 3px;
    min-height: 30px; min-width: 30px; }
QScrollBar::handle:hover { background: $muted; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QMenuBar { background: $window; padding: 2px 16px; }
QMenuBar::item { padding: 4px 8px; border-radius: 4px; }
QMenuBar::item:selected { background: $field; }
QMenu { background: $window; color: $text; border: 1px solid $line; padding: 4px; }
QMenu::item { padding: 5px 24px 5px 24px; border-radius: 4px; }
QMenu::item:selected { background: $accent; color: $on_accent; }
QMenu::item:disabled { color: $muted; }
QMenu::separator { height: 1px; background: $line; margin: 4px 8px; }
QAbstractScrollArea::corner { background: transparent; border: none; }
QScrollArea, QScrollArea > QWidget > QWidget { background: transparent; border: none; }
QListWidget { background: $window; border: none; outline: 0; }
QListWidget::item { padding: 8px 12px; border-radius: 6px; color: $text; }
QListWidget::item:selected { background: $field; color: $accent; }
QListWidget::item:selected:focus { border: 1px solid $accent; }
QProgressBar { background: $line; border: none; border-radius: 3px; max-height: 6px; min-height: 6px; }
QProgressBar::chunk { background: $accent; border-radius: 3px; }
QLabel[role="code"] { background: $field; border: 1px solid $field; border-radius: 6px;
    padding: 6px 10px; }
QLabel[role="code"]:focus { border-color: $accent; }
QLineEdit, QAbstractSpinBox, QComboBox { background: $field; border: 1px solid $edge;
    border-radius: 5px; padding: 4px 8px; selection-background-color: $accent;
    selection-color: $on_accent; }
QLineEdit:focus, QAbstractSpinBox:focus, QComboBox:focus { border: 2px solid $accent; padding: 3px 7px; }
QLineEdit:disabled, QAbstractSpinBox:disabled, QComboBox:disabled { border-style: dashed;
    color: $muted; }
QComboBox::drop-down, QAbstractSpinBox::up-button, QAbstractSpinBox::down-button { border: none; width: 18px; }
QComboBox::down-arrow, QAbstractSpinBox::down-arrow { image: url($controls/arrow-down.svg); width: 10px; }
QAbstractSpinBox::up-arrow { image: url($controls/arrow-up.svg); width: 10px; }
QAbstractSpinBox QLineEdit { background: transparent; border: none; padding: 0 6px; }
QComboBox QAbstractItemView { background: $window; color: $text; border: 1px solid $line;
    selection-background-color: $accent; selection-color: $on_accent; }
QCheckBox, QRadioButton { spacing: 8px; padding: 3px; border: 1px solid transparent; border-radius: 5px; }
QCheckBox:focus, QRadioButton:focus { border-color: $accent; }
QCheckBox::indicator, QRadioButton::indicator { width: 14px; height: 14px; background: $field;
    border: 1px solid $edge; border-radius: 4px; }
QRadioButton::indicator { border-radius: 8px; }
QCheckBox::indicator:checked { background: $accent; border-color: $accent;
    image: url($controls/tick-$name.svg); }
QRadioButton::indicator:checked { width: 6px; height: 6px; border: 5px solid $accent;
    background: $on_accent; }
QCheckBox::indicator:unchecked:disabled { border-style: dashed; }
QCheckBox::indicator:checked:disabled { background: $muted; border-color: $muted; }
QRadioButton::indicator:checked:disabled { border-color: $muted; }
QToolTip { background: $field; color: $text; border: 1px solid $line; padding: 4px; }
""")
